/** One agent of a kind in a process of its own. Its parent is told where it listens, and its books when it asks. */
import { startA2aAgent } from '../../support/upstream-a2a.js'
import { startMcpAgent } from '../../support/upstream-agent.js'
import { type Books, KINDS, type Kind, strictly } from './kinds.js'

/** What its parent may say; each is answered with its books. */
export type Order = 'books' | 'hold' | 'let go'

export type Report = { url: string } | { books: Books }

const report = (told: Report) => process.send?.(told)

async function start(kind: Kind): Promise<void> {
  const books: Books = { activated: 0, deactivated: 0, refused: [], asked: {}, holds: false }
  const { transport, tools } = kind
  const handle = strictly(kind, books)
  const skills = tools.map(({ name }) => ({ id: name, description: `AdCP tool: ${name}.` }))
  const agent =
    transport === 'a2a'
      ? await startA2aAgent((task, args) => handle(task, args), ['1.0'], skills)
      : await startMcpAgent(handle, { sessions: false, json: true }, tools)
  process.on('message', (order: Order) => {
    if (order !== 'books') books.holds = order === 'hold'
    report({ books })
  })
  report({ url: agent.url })
}

const kind = KINDS.find(({ name }) => name === process.argv[2])
if (!kind) throw new Error(`no kind ${process.argv[2]}`)
process.once('disconnect', () => process.exit()) // an aborted test leaves nothing behind
void start(kind)
