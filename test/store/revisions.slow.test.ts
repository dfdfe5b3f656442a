/** Which of several configurations is the newest, over starts, ends and reloads. */
import { test } from 'tap'
import { becomes, buildersOf, joined } from './support/builders.js'
import { NO_POSTGRES, shared } from './support/storages.js'

test('the newest configuration is the one that was first run last, or taken up by a running process last', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const old = await joined(t, storage, 'old', 'first')
  await becomes({ old }, 'old')
  const fresh = await joined(t, storage, 'fresh', 'second')
  await becomes({ old, fresh }, 'fresh')

  const again = await joined(t, storage, 'again', 'first')
  const also = await joined(t, storage, 'also', 'first')
  const all = { old, fresh, again, also }
  t.same(buildersOf(all), ['fresh'], 'a file that was left behind is not new because its process is')
  await old.close()
  t.same(await becomes(all, 'fresh'), ['fresh'])

  await fresh.close()
  await becomes(all, 'again', 'also')
  const [builder] = buildersOf(all)
  const other = builder === 'also' ? 'again' : 'also'
  all[other].reload('third')
  await becomes(all, other)
  all[other === 'also' ? 'again' : 'also'].reload('second')
  t.same(
    await becomes(all, builder as string),
    [builder],
    'what was taken up last is the newest, an old file too',
  )
})
