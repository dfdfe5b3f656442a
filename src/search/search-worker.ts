/** The thread that indexes what is not small; input and output are in shared memory (docs/decisions.md#memory-and-threads). */
import { parentPort, workerData } from 'node:worker_threads'
import { drained } from '../process/portions.js'
import { indexInPortions, type SearchBuild } from './search-index.js'

/** `workerData`: the synonyms, compiled once by whoever started the thread. */
parentPort?.on('message', (build: SearchBuild) =>
  parentPort?.postMessage(drained(indexInPortions(build, workerData))),
)
