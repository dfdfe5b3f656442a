/** Everything that one transaction reads and writes. */
import type { Jobs } from './jobs/jobs.js'
import type { OpenJobs } from './jobs/open-jobs.js'
import type { Accounts } from './records/accounts.js'
import type { Audit } from './records/audit.js'
import type { FoundRows } from './records/found.js'
import type { Idempotency } from './records/idempotency.js'
import type { Ledger } from './records/ledger.js'
import type { SignalChanges } from './records/signal-changes.js'
import type { Subscriptions } from './records/subscriptions.js'
import type { Tasks } from './records/tasks.js'
import type { Work } from './records/work.js'

export type Repositories = {
  idempotency: Idempotency
  jobs: Jobs
  openJobs: OpenJobs
  ledger: Ledger
  tasks: Tasks
  accounts: Accounts
  subscriptions: Subscriptions
  found: FoundRows
  audit: Audit
  signalChanges: SignalChanges
  work: Work
}
