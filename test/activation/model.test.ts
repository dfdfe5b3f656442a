import fc from 'fast-check'
import { onEveryStorage } from '../store/support/storages.js'
import { proven } from '../support/proven.js'
import { type Command, commandsOfOneRun, startModelGround } from './support/model.js'

const RUNS = 1
const COMMANDS = 12 // of one run at most; thousands of runs are tried by `npm run soak`

type Wished = { isOn: boolean; forAccount?: boolean; places: ('dv360' | 'the-trade-desk')[] }

const inOrder = (by: number, ...wishes: Wished[]): Command => ({
  ...{ kind: 'ask', inOrder: true },
  asks: wishes.map((wish) => ({ ...wish, at: 'keyed', by, room: 0 })),
})
const ask = (by: number, isOn: boolean, ...places: Wished['places']) => inOrder(by, { isOn, places })
const twice = (first: 'before it acts' | 'after it acted'): Command => ({
  kind: 'manners',
  at: 'keyed',
  manners: [`is cut ${first}`, 'is cut before it acts'],
})
const later: Command = { kind: 'time passes', ms: 20_000 }
const reload: Command = { kind: 'reload', moved: 1, isListed: true }

const sync = (by: number, isOpen: boolean): Command => ({ kind: 'sync', by, isOpen, room: 0 })
const forAccount = (by: number, isOn: boolean) => inOrder(by, { isOn, forAccount: true, places: ['dv360'] })

/** Once found by random runs, or too rare for them. */
const FOUND: Record<string, Command[]> = {
  'a deactivation that is repeated takes nothing from another who activated since': [
    ask(0, true, 'dv360'),
    twice('before it acts'),
    ...[ask(0, false, 'dv360'), ask(1, true, 'dv360'), later],
  ],
  'what a later request leaves undecided of a call is unknown': [
    twice('after it acted'),
    ...[ask(0, true, 'dv360', 'the-trade-desk'), ask(0, false, 'dv360'), later, later],
  ],
  'work without a task of the upstream ends as it is seen to, or unknown': [
    {
      kind: 'manners',
      at: 'keyed',
      manners: ['works on it and names no task', 'works on it and names no task'],
    },
    ...[ask(0, true, 'dv360'), ask(1, true, 'the-trade-desk'), reload, later],
    { kind: 'tasks go on', at: 'keyed', end: 'completed' },
    later,
    ask(0, false, 'dv360'),
  ],
  'what is on for one account is switched off although it is on for none or another, also when it is closed':
    [
      ...[sync(0, true), forAccount(0, true), ask(1, true, 'dv360'), reload, forAccount(0, false)],
      ...[
        forAccount(0, true),
        forAccount(1, true),
        sync(0, false),
        forAccount(0, false),
        forAccount(1, false),
      ],
    ],
  'a later request that was refused takes no one`s place': [
    { kind: 'manners', at: 'keyed', manners: ['is cut after it acted', 'is cut before it acts', 'refuses'] },
    ...[ask(0, true, 'dv360'), ask(0, false, 'dv360'), later, later],
  ],
  'a later request that was never sent because of one after it takes no one`s place': [
    ask(0, true, 'dv360'),
    {
      kind: 'manners',
      at: 'keyed',
      manners: ['hangs after it acted', 'is cut before it acts', 'is cut before it acts'],
    },
    inOrder(0, ...[false, true, false].map((isOn): Wished => ({ isOn, places: ['dv360'] }))),
    { kind: 'manners', at: 'keyed', manners: ['refuses', 'refuses'] },
    ...[later, later],
  ],
  'a later request that may yet be refused takes no one`s place': [
    ...[twice('after it acted'), ask(0, true, 'dv360')],
    ...[twice('before it acts'), ask(0, false, 'dv360')],
    { kind: 'manners', at: 'keyed', manners: ['refuses'] },
    ...[later, later],
  ],
  'a part of what may have been sent is not sent under the same key': [
    ...[ask(0, true, 'dv360', 'the-trade-desk'), twice('before it acts')],
    ...[ask(0, false, 'dv360', 'the-trade-desk'), ask(1, true, 'dv360'), later],
  ],
  'what an upstream works on leaves on for another who is refused afterwards is switched off': [
    ask(0, true, 'dv360', 'the-trade-desk'),
    twice('before it acts'),
    ask(1, true, 'dv360'),
    { kind: 'manners', at: 'keyed', manners: ['works on it'] },
    ask(0, false, 'dv360', 'the-trade-desk'),
    { kind: 'tasks go on', at: 'keyed', end: 'completed' },
    ...[twice('before it acts'), later],
    { kind: 'manners', at: 'keyed', manners: ['refuses'] },
    later,
  ],
}

onEveryStorage(
  'whatever happens in whatever order, a wish is carried out once, or not, and the ledger knows it',
  async (t, storage) => {
    const { isShared } = storage
    const crashWorld = await startModelGround({ open: (now) => storage.open({ now }), isShared })
    t.teardown(() => crashWorld.close())
    for (const [what, commands] of Object.entries(FOUND)) {
      await t.resolves(crashWorld.run(commands), what)
    }
    const random = fc.noShrink(commandsOfOneRun(COMMANDS)) // a shorter run would take minutes to find
    const property = fc.asyncProperty(random, (commands) => crashWorld.run(commands))
    await t.resolves(proven(t, RUNS, property), 'random ones')
  },
)
