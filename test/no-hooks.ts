/**
 * Keeps tap from watching every promise and timer of the process. It does so to say in which test an error was thrown that
 * nobody caught, and it took a sixth of the time of tests with servers. Without it such an error fails the process, and
 * together.ts names the file. To be imported before tap.
 */
import async_hooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const idle: AsyncHook = { enable: () => idle, disable: () => idle }
async_hooks.createHook = () => idle
syncBuiltinESMExports()
