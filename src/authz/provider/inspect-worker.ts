/** The worker of inspector.ts: reads files, and looks through them for one agent, one after another. */
import { parentPort } from 'node:worker_threads'
import { inspect } from '../rules/inspect.js'
import { grantedTo } from '../rules/references.js'
import type { InspectorJob } from './inspector.js'

parentPort?.on('message', (job: InspectorJob) => {
  parentPort?.postMessage('state' in job ? grantedTo(job.state, job.agentUrl, job.nowMs) : inspect(job.bytes))
})
