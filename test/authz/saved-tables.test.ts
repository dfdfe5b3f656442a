import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { createArchive } from '../../src/authz/provider/archive.js'
import { tableParts, tablesFrom } from '../../src/authz/provider/files.js'
import { type Examine, inspect } from '../../src/authz/provider/inspector.js'
import {
  compileProvider,
  decide,
  type HeldDocument,
  type ProviderState,
} from '../../src/authz/rules/verdict.js'
import { openBlobFiles } from '../../src/store/blob-files.js'
import { NOW, stateWith } from './compiled.js'

/** What TABLES_FORM stands for. Whoever raises it writes down here what it stands for now. */
const RECORDED = { form: 1, digest: '88a9c99fd041d1fa' }

const agent = (url: string, more: object) => ({ url, authorized_for: 'signals', ...more })

/** One of everything that the tables know. */
const FILE = {
  authorized_agents: [
    agent('https://North.example:443/mcp', {
      authorization_type: 'signal_tags',
      signal_tags: ['open', 'gone'],
    }),
    agent('https://north.example/other', {
      authorization_type: 'signal_ids',
      signal_ids: ['age', 'income', 'unknown'],
      countries: ['DE', 'FR'],
      effective_from: '2026-01-01T00:00:00Z',
      effective_until: '2027-01-01T00:00:00Z',
    }),
    agent('https://south.example', { authorization_type: 'property_ids', property_ids: ['p'] }),
    { url: 'no url', authorization_type: 'signal_ids', signal_ids: ['age'] },
    { url: 'https://west.example', authorization_type: 'signal_ids', signal_ids: ['age'] },
    7,
  ],
  signals: [
    { id: 'age', name: 'Age', tags: ['open', 'UPPER'] },
    { id: 'income', name: 'Income', tags: ['open'] },
    { id: 'age', name: 'Again', tags: ['other'] },
    { id: 'not well formed' },
  ],
}

/** The number in what is saved. */
function formOf(header: Uint8Array | undefined): number {
  return (JSON.parse(String(header)) as { form: number }).form
}

const documentOf = (state: ProviderState) => state.document as HeldDocument

test('the tables of a document are those that the number of their form stands for', async (t) => {
  const { tables } = documentOf(stateWith(FILE))
  const lasting = JSON.stringify(tables, (name, value) => {
    if (name === 'seed' || name === 'slots') return undefined // chosen at random for each table
    return ArrayBuffer.isView(value) ? [...(value as Float64Array)].map(String) : value
  })
  const digest = createHash('sha256').update(lasting).digest('hex').slice(0, 16)
  const told = 'another digest under the same number: raise TABLES_FORM, then record both here'
  t.same({ form: formOf(tableParts(tables)[0]), digest }, RECORDED, told)
})

test('tables are the same after a storage, and those of another form are none', async (t) => {
  const { tables } = documentOf(stateWith(FILE))
  const [header, ...arrays] = tableParts(tables)
  t.same(tablesFrom([header as Uint8Array, ...arrays]), tables)
  const form = formOf(header)
  const other = Buffer.from(String(header).replace(`"form":${form}`, '"form":0'))
  t.equal(tablesFrom([other, ...arrays]), undefined)
  const later = { form: form + 1, tables: { names: { array: 'BigInt64Array', part: 99 } } }
  t.equal(
    tablesFrom([Buffer.from(JSON.stringify(later))]),
    undefined,
    'also one that only a later release knows',
  )
  t.equal(tablesFrom([]), undefined)
})

test('a restart gives the same verdicts without reading the documents again', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-tables-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const blobs = await openBlobFiles({ folder, onDamage: (name) => t.fail(`${name} is damaged`) })
  let examined = 0
  const examine: Examine = async (bytes) => {
    examined += 1
    return { inspection: inspect(bytes), bytes }
  }
  const opened = () => createArchive({ blobs, sharing: undefined, examine, now: () => NOW })
  const state = stateWith(FILE)
  const { document, confirmedAt } = state
  const record = { domain: state.domain, document: documentOf(state), confirmedAt: confirmedAt as number }
  const turn = { name: '', epoch: 0 }
  const verdicts = ({ document: held }: Pick<ProviderState, 'document'>) => {
    const provider = compileProvider({ ...state, document: held as HeldDocument })
    const urls = ['https://north.example/mcp', 'https://north.example/other', 'https://west.example/']
    return ['age', 'income', 'unknown'].flatMap((id) => urls.map((url) => decide(provider, id, url, NOW)))
  }
  const load = async () => {
    const loaded = await opened().load(state.domain)
    t.same(verdicts(loaded ?? {}), verdicts(state))
    t.same(Buffer.from(loaded?.document?.bytes ?? []), Buffer.from(documentOf(state).bytes))
    t.equal(
      loaded?.document?.bytes.buffer instanceof SharedArrayBuffer,
      true,
      'threads read them without a copy',
    )
  }

  t.ok(await opened().save(record, turn))
  await load()
  t.equal(examined, 0)

  // As an earlier release left it: the document alone. It is read once, and saved with its tables at the next look.
  const name = `provider-document/${document?.digest}`
  await blobs.write(name, [documentOf(state).bytes])
  const archive = opened()
  t.same(verdicts((await archive.load(state.domain)) ?? {}), verdicts(state))
  t.equal(examined, 1)
  t.ok(await archive.save(record, turn))
  await load()
  t.equal(examined, 1)
})
