import { onEveryStorage } from './support/storages.js'

onEveryStorage('what operators did in one millisecond is told newest first', async (t, storage) => {
  const { audit } = await storage.open()
  const subjects = ['a', 'b', 'c', 'd', 'e', 'f']
  for (const subject of subjects)
    await audit.note({ who: 'op', action: 'suspend-caller', subject, outcome: 'done' })
  const told = (await audit.last(10)).map(({ subject }) => subject)
  t.same(told, [...subjects].reverse())
})
