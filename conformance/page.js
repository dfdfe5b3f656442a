/** docs/conformance.md, written from what a run found. */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { count, PARTS, stepKey } from './outcome.js'
import { SDK_VERSION } from './storyboards.js'

const FILE = fileURLToPath(new URL('../docs/conformance.md', import.meta.url))
const SCHEMAS = '## Schemas'

const cell = (text) => String(text).replaceAll('|', '\\|')
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n')

function counts(row) {
  return ['passed', 'failed', 'skipped']
    .map((outcome) => [outcome, count(row, outcome)])
    .filter(([, number]) => number > 0)
    .map(([outcome, number]) => `${number} ${outcome}`)
    .join(', ')
}

/** Rows of one name side by side, a column a transport. */
function byTransport(rows) {
  const names = [...new Set(rows.map(({ release, name }) => `${release}\n${name}`))]
  return names.map((key) => {
    const [release, name] = key.split('\n')
    const over = (transport) => {
      const row = rows.find(
        (one) => one.release === release && one.name === name && one.transport === transport,
      )
      return row ? counts(row) : ''
    }
    return [release, name, over('mcp'), over('a2a')]
  })
}

function total(rows, part, release, transport) {
  const own = rows.filter(
    (row) => row.part === part && row.release === release && row.transport === transport,
  )
  const sum = (outcome) => own.reduce((all, row) => all + count(row, outcome), 0)
  return [
    PARTS[part],
    release,
    transport.toUpperCase(),
    own.length,
    sum('passed'),
    sum('failed'),
    sum('skipped'),
  ]
}

function summary(rows) {
  const kinds = [
    ...new Set(rows.map(({ part, release, transport }) => `${part} ${release} ${transport}`)),
  ].sort()
  return kinds.map((kind) => total(rows, ...kind.split(' ')))
}

/** Steps of one outcome with the reason, transports that agree in one line. */
function lines(rows, outcome) {
  const found = new Map()
  for (const row of rows) {
    for (const step of row.steps) {
      if (step.outcome !== outcome) continue
      const key = JSON.stringify([row.name, step.name, step.why])
      found.set(key, [...(found.get(key) ?? []), row.transport.toUpperCase()])
    }
  }
  return [...found].map(([key, transports]) => {
    const [name, step, why] = JSON.parse(key)
    return [name, step, transports.join(', '), why]
  })
}

function exceptionLines(rows, excepted) {
  const failures = rows.flatMap((row) =>
    row.steps.filter(({ outcome }) => outcome === 'failed').map((step) => [row, step]),
  )
  return failures.map(([row, step]) => [
    row.release,
    row.transport.toUpperCase(),
    row.name,
    step.name,
    excepted.get(stepKey(row, step)) ?? `**unexpected**: ${step.why}`,
  ])
}

/** Client against scenario. */
function matrix(rows) {
  const scenarios = [...new Set(rows.flatMap(({ steps }) => steps.map(({ name }) => name)))]
  const head = ['task: state', ...rows.map(({ name, transport }) => `${name}, ${transport.toUpperCase()}`)]
  const outcomeOf = ({ steps }, scenario) => steps.find(({ name }) => name === scenario)?.outcome ?? ''
  return table(
    head,
    scenarios.map((scenario) => [scenario, ...rows.map((row) => outcomeOf(row, scenario))]),
  )
}

/** Without the schemas next to the repository nothing is known of them: what is written stays. */
function schemaSection(rows, before) {
  if (rows.length > 0)
    return `${SCHEMAS}\n\n${SCHEMA_WORDS}\n\n${table(['release', 'what', 'MCP', 'A2A'], byTransport(rows))}\n`
  const at = before.indexOf(SCHEMAS)
  return at < 0 ? `${SCHEMAS}\n\nNot checked.\n` : before.slice(at)
}

const SCHEMA_WORDS = `Every answer of the checks of our own is validated by the protocol's JSON Schemas of its release, an answer of 3.1 by those of 3.2
too; of a failure, its error is. The schemas of 3.0 are the SDK's. The others are in a folder next to the repository
(\`../shared/adcp/schemas\`); where that is absent, the run says so and this section stays as it was.`

const INTRODUCTION = `# Does it pass the protocol's own tests?

<!-- Written by conformance/run.js: do not edit. -->

\`\`\`sh
npm run build && npm run conformance
\`\`\`

starts Tributary over the demo world (a fresh folder, a free port, anonymous callers denied) and tests it over MCP and over A2A with

- \`@adcp/sdk\` ${SDK_VERSION}, the newest that npm has: every storyboard that the agent's capabilities select, and the fuzzer with two tenants;
- checks of our own for what 3.1 and 3.2 ask beyond the storyboards, each answer validated by the JSON Schemas of its release;
- the storyboard of signed requests, with a caller that signs by the protocol's published test keys;
- at a server with \`comply_test_controller\`: the SDK's \`deterministic_testing\` and, as checks of our own, the storyboards of 3.1 that
  npm does not have yet (\`get_signals_async\`, \`comply_controller_mode_gate\`, seeded accounts);
- hosts of language models: the MCP Inspector's command line and the tool readers of two model SDKs;
- the official clients: every task in every state, and how each client reads the answer.

The run writes this page. It fails when a step fails that \`conformance/exceptions.js\` does not list, when a listed step passes, when
a part ran nothing, and when this page was out of date. It has a \`package.json\` of its own, because it needs both generations of the
A2A SDK. Its packages are installed without their install scripts.`

const CLIENT_WORDS = `A cell says whether the client read the answer as it was meant: the state, the error's code, and the \`task_id\` of a task that is not
finished. "By its text alone" means that only the text part was read, as a language model may. An activation that the upstream
finishes later has the state that the upstream reports, such as \`input-required\` when somebody there has to approve it.`

const HOST_WORDS = `Whether the Inspector's command line and the tool readers of two model SDKs can list and call the tools over MCP.`

export function pageOf(rows, excepted, before) {
  const of = (part) => rows.filter((row) => row.part === part)
  const tested = rows.filter(({ part }) => part !== 'schemas')
  const storyboards = [...of('storyboards'), ...of('fuzzer')]
  return `${INTRODUCTION}

## In numbers

${table(['part', 'release', 'transport', 'of them', 'steps passed', 'failed', 'skipped'], summary(tested))}

## Exceptions

Every step that fails, and why it is excepted.

${table(['release', 'transport', 'what', 'step', 'why'], exceptionLines(rows, excepted))}

## Storyboards

${table(['release', 'storyboard', 'MCP', 'A2A'], byTransport(storyboards))}

## Checks of our own

${table(['release', 'what', 'MCP', 'A2A'], byTransport(of('lifecycles')))}

## Hosts of language models

${HOST_WORDS}

${matrix(of('hosts'))}

## Official clients

${CLIENT_WORDS}

${matrix(of('clients'))}

## Skipped steps

${table(['storyboard', 'step', 'transport', 'why'], lines(storyboards, 'skipped'))}

${schemaSection(of('schemas'), before)}`
}

/** Writes the page; true when it was out of date. */
export function writePage(rows, excepted) {
  const before = readFileSync(FILE, 'utf8')
  const page = pageOf(rows, excepted, before)
  if (page === before) return false
  writeFileSync(FILE, page)
  return true
}
