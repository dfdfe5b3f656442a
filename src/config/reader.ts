/**
 * Reads a configuration while there is something to serve: to parse a file and to compile what checks it stops a thread longer than
 * all that a reload does then, so it has a thread of its own, which ends with it (docs/decisions.md#memory-and-threads).
 */
import { answerJobs, createPool, NotBegun } from '../process/thread-pool.js'
import { ConfigError, type ConfigProblem, type Environment, readConfig, type Written } from './load.js'
import { type Config, toConfig } from './values.js'

const HEAP_MB = 1_024 // a file that needs more is refused, and the process goes on

type Job = { path: string; text: string; environment: Environment }

type Outcome =
  | ({ kind: 'read' } & Written)
  | { kind: 'wrong'; problems: readonly ConfigProblem[]; revision: string | undefined }

function outcomeOf({ path, text, environment }: Job): Outcome {
  try {
    return { kind: 'read', ...readConfig(path, text, environment) }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const { problems, revision } = error
    return { kind: 'wrong', problems, revision }
  }
}

answerJobs(import.meta.url, outcomeOf)

async function inThread(job: Job): Promise<Outcome> {
  const code = new URL('./reader.js', import.meta.url)
  const thread = createPool<Job, Outcome>({ code, size: 1, heapMb: HEAP_MB })
  try {
    return await thread.run('', job, [], job.text.length)
  } catch (error) {
    if (error instanceof NotBegun) return outcomeOf(job) // the system has no thread left, perhaps until this is applied
    throw error
  } finally {
    await thread.close()
  }
}

/** The configuration in a text. Rejects with `ConfigError`, which names every problem. */
export async function configIn(path: string, text: string, environment: Environment): Promise<Config> {
  const outcome = await inThread({ path, text, environment: { ...environment } })
  if (outcome.kind === 'wrong') throw new ConfigError(path, outcome.problems, outcome.revision)
  return toConfig(path, outcome.revision, outcome.file)
}
