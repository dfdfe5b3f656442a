/** The worker of inspector.ts: inspects the bytes it was started with, answers once and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { inspect } from '../inspect.js'

parentPort?.postMessage(inspect(workerData as Uint8Array))
