import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { embedded } from '../store/support/storages.js'
import { runCommand } from '../support/command.js'

const ENTRIES = 60

test('the ledger is exported whole as JSON lines; the table says that there is more', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  for (let index = 0; index < ENTRIES; index += 1) {
    storage.clock.now += 1_000
    await store.ledger.recordAll([
      {
        ...{ id: `call-${index}`, caller: 'acme', account: '{"account_id":"acc_1"}', action: 'activate' },
        ...{ handle: 'sig_a', signalHandle: 'sig_a', offerHandle: 'sig_a.12345678' },
        ...{ upstream: 'northwind', agentUrl: 'https://signals.northwind.example/mcp', segmentId: 'nw_1' },
        ...{ pricingOptionId: 'sig_a.12345678.po', destinations: [{ type: 'platform', platform: 'dsp' }] },
        ...{ seenAs: 'shared', seq: index },
      },
    ])
  }
  const config = join(storage.url.slice('file:'.length), 'config.json')
  await writeFile(config, JSON.stringify({ storage: { url: storage.url } }))

  const { out } = await runCommand(['ledger', '--config', config, '--json'])
  const lines = out.trim().split('\n')
  t.equal(lines.length, ENTRIES)
  t.match(JSON.parse(lines[0] as string), {
    ...{ id: `call-${ENTRIES - 1}`, caller: 'acme', account: '{"account_id":"acc_1"}', action: 'activate' },
    ...{ signalHandle: 'sig_a', offerHandle: 'sig_a.12345678', upstream: 'northwind', outcome: 'pending' },
    ...{ pricingOptionId: 'sig_a.12345678.po', destinations: [{ platform: 'dsp' }], createdAt: Number },
  })
  t.match(await runCommand(['ledger', '--config', config]), { out: /50 entries, the newest of more/ })
})

test('a move from where no server ran is refused, and leaves nothing behind', async (t) => {
  const folder = (await embedded(t)).url.slice('file:'.length)
  const config = join(folder, 'config.json')
  await writeFile(config, JSON.stringify({ storage: { url: `file:${folder}/none` } }))
  const { code, err } = await runCommand(['move-storage', '--config', config, '--to', `file:${folder}/to`])
  t.equal(code, 1)
  t.match(err, /there is no storage at .*none; run this where/)
})
