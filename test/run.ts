/**
 * Runs the test files and says at the end what failed: many files share a process, one after another.
 *
 *     node dist/test/run.js              every test that npm test runs
 *     node dist/test/run.js adcp store   those of these folders
 *     node dist/test/run.js --slow       what takes minutes, each file in a process of its own, and more cases of every property
 *
 * tap's own command would load its coverage and process hooks into every test and into every process that a test starts:
 * nothing here reads them, and they cost more than most of the tests.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { t } from 'tap'
import { makeCluster, postgresBinaries, startPostgres } from './store/support/postgres.js'
import { givenOptions, refuse } from './support/given.js'
import { LONGEST_MS, SOAK } from './support/longest.js'
import { keepFilesInMemory } from './support/memory-folder.js'
import { tellFailures } from './support/tell-failures.js'

/**
 * A process costs two seconds of a processor, for what its files import and until that is fast, so many files share one:
 * as many begin at once as two cores keep busy. Which files share a process is another each time; its log says it.
 */
const PARTS = 5
const FEWEST = 20
const FEWEST_PROPERTIES = 6 // tried in so many cases, they take far longer than a process does to start

/** How many times as many cases of its properties `--slow` tries: most where a case is pure and takes the least. */
const CASES = 10
const CASES_OF: Readonly<Record<string, number>> = { feed: 40, merge: 20 }

/**
 * The heap that new objects are made in begins as large as it may become: most of a test's are dead before it is full, and
 * to collect them more often took a twentieth of the processor's time.
 */
const NODE_FLAGS = ['--enable-source-maps', '--min-semi-space-size=16', '--max-semi-space-size=32']

const HERE = dirname(fileURLToPath(import.meta.url))
const SOURCES = resolve(HERE, '../../test')

/** The test files of a folder; the sources are read, since what was compiled may be of yesterday. */
function testFiles(folder: string, isWanted: (source: string) => boolean): string[] {
  return readdirSync(join(SOURCES, folder))
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join(SOURCES, folder, file))
    .filter(isWanted)
    .sort()
}

const compiled = (source: string) => relative('.', join(HERE, relative(SOURCES, source).replace(/ts$/, 'js')))

const isSlow = (source: string) => source.endsWith('.slow.test.ts')
const triesProperties = (source: string) =>
  !isSlow(source) && readFileSync(source, 'utf8').includes('/support/proven.js')

const { positionals, values } = givenOptions({
  allowPositionals: true,
  options: { slow: { type: 'boolean', default: false } },
})

const everyFolder = readdirSync(SOURCES, { withFileTypes: true }).filter((entry) => entry.isDirectory())
const known = everyFolder.map(({ name }) => name).sort()
const unknown = positionals.filter((name) => !known.includes(name))
if (unknown.length > 0) refuse(`no folder of tests: ${unknown.join(', ')}; there are ${known.join(', ')}`)

const folders = positionals.length > 0 ? positionals : known

const filesOf = (rooms: readonly string[], isWanted: (source: string) => boolean) =>
  rooms.flatMap((folder) => testFiles(folder, isWanted))

if (!values.slow && filesOf(folders, (source) => !isSlow(source)).length === 0) {
  refuse(`all tests of ${folders.join(', ')} are slow: add --slow`) // tap would wait for the first one
}

// Three more than there are cores: much of their time tests wait, for sockets, files and intervals of a second.
t.jobs = availableParallelism() + 3
t.setTimeout(0)

// What takes minutes breaks processes and disks on purpose, and has more data.
if (!values.slow) keepFilesInMemory()

// One for all files: each of them makes databases of its own in it.
const binaries = postgresBinaries()
if (binaries) t.teardown(makeCluster(binaries))
const postgres = binaries ? await startPostgres(binaries) : undefined
if (postgres) t.teardown(postgres.remove)
const environment = {
  ...process.env,
  ...(postgres && { TRIBUTARY_TEST_POSTGRES: String(postgres.port) }),
}

/** Files that run one after another in a process, or in several of which each runs what no other claims before. */
type Part = {
  sources: readonly string[]
  claims?: string
  /** How many times as many cases of each property are tried. */
  cases: number
}

/** The largest first: so what is left at the end is short, and all processes end at nearly the same time. */
function shared(sources: readonly string[], cases: number, fewest: number): Part[] {
  const size = (source: string) => statSync(source).size
  const largestFirst = [...sources].sort((one, other) => size(other) - size(one))
  const claims = mkdtempSync(join(tmpdir(), 'tributary-claims-'))
  t.teardown(() => rmSync(claims, { recursive: true }))
  const count = Math.min(PARTS, Math.ceil(sources.length / fewest))
  return Array.from({ length: count }, () => ({ sources: largestFirst, claims, cases }))
}

function slowParts(): Part[] {
  const casesOf = (folder: string) => CASES_OF[folder] ?? CASES
  const properties = [...new Set(folders.map(casesOf))].flatMap((cases) => {
    const rooms = folders.filter((folder) => casesOf(folder) === cases)
    return shared(filesOf(rooms, triesProperties), cases, FEWEST_PROPERTIES)
  })
  return [...properties, ...filesOf(folders, isSlow).map((source) => ({ sources: [source], cases: 1 }))]
}

function usualParts(): Part[] {
  const usual = filesOf(folders, (source) => !isSlow(source))
  return shared(usual, 1, FEWEST)
}

const parts = values.slow ? slowParts() : usualParts()
for (const [at, { sources, claims, cases }] of parts.entries()) {
  const files = sources.map(compiled)
  const sharing = claims ? ['--claims', claims] : []
  const command = [process.execPath, ...NODE_FLAGS, join(HERE, 'together.js'), ...sharing, ...files]
  const what = files.length === 1 ? files[0] : `of ${files.length} files`
  t.spawn('env', ['-u', 'NODE_OPTIONS', ...command], {
    name: `${at + 1} of ${parts.length}: ${what}${cases > 1 ? `, ${cases} times as many cases` : ''}`,
    buffered: true,
    timeout: files.length * LONGEST_MS * cases,
    env: { ...environment, SOAK: String(SOAK * cases), TAP_TIMEOUT: String((LONGEST_MS * cases) / 1_000) },
  })
}

tellFailures()
