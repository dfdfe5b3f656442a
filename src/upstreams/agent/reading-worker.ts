/** The thread that reads large answers. The rows that it has read are transferred, not copied. */
import { parentPort } from 'node:worker_threads'
import { readListing } from '../rows/registry-records.js'
import { readMessages } from './answer.js'
import type { ReaderJob } from './reader.js'

if (!parentPort) throw new Error('started outside of a thread')
const port = parentPort

port.on('message', (job: ReaderJob) => {
  if ('registry' in job) {
    port.postMessage(readListing(job.registry, job.secrets))
    return
  }
  const reading = readMessages(job)
  const rows =
    reading.kind === 'answer' && reading.outcome.kind === 'answer' ? reading.outcome.rows : undefined
  const { bytes, ends, digests, segments, places } = rows ?? {}
  const columns = rows?.elements ? [bytes, ends, digests, segments, places?.words, places?.ends] : []
  port.postMessage(
    reading,
    columns.map((column) => column?.buffer as ArrayBuffer),
  )
})
