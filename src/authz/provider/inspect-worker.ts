/** The worker of inspector.ts: reads files, and searches them for the grants of one agent, one job at a time. */
import { parentPort } from 'node:worker_threads'
import { inspect } from '../rules/tables.js'
import { grantedTo } from '../rules/verdict.js'
import type { InspectorJob } from './inspector.js'

parentPort?.on('message', (job: InspectorJob) => {
  parentPort?.postMessage('state' in job ? grantedTo(job.state, job.agentUrl, job.nowMs) : inspect(job.bytes))
})
