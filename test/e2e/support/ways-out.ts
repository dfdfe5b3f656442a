/** Loaded before a process under test (`NODE_OPTIONS=--import`): writes down whatever leaves it. */
import childProcess from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { isMainThread } from 'node:worker_threads'

type Called = (this: unknown, ...args: unknown[]) => unknown

/** `object[name]` works as before, and says that it was used. */
function watch(object: object, name: string): void {
  const before = Reflect.get(object, name) as Called
  Reflect.set(object, name, function watched(this: unknown, ...args: unknown[]) {
    process.stderr.write(`way out: ${name} ${JSON.stringify(args[0])}\n`)
    return before.apply(this, args)
  } satisfies Called)
}

watch(net.Socket.prototype, 'connect')
watch(dgram, 'createSocket')
for (const name of ['lookup', 'resolve']) watch(dns, name)
for (const name of ['lookup', 'resolve']) watch(dns.promises, name)
for (const name of ['spawn', 'fork', 'exec', 'execFile', 'spawnSync']) watch(childProcess, name)
syncBuiltinESMExports()
if (isMainThread) process.stderr.write('the ways out are watched\n')
