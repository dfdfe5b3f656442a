/** The thread of `checksumOf`: one part a message, in shared memory, and one checksum back. */
import { parentPort } from 'node:worker_threads'
import { crc32 } from 'node:zlib'

parentPort?.on('message', (part: Uint8Array) => parentPort?.postMessage(crc32(part)))
