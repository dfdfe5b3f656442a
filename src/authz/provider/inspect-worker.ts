/** The worker of inspector.ts: reads the bytes that it is sent, one file after another. */
import { parentPort } from 'node:worker_threads'
import { inspect } from '../inspect.js'

parentPort?.on('message', (bytes: Uint8Array) => parentPort?.postMessage(inspect(bytes)))
