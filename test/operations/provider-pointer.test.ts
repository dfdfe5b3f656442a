import { test } from 'tap'
import { createViews, type ViewSources } from '../../src/operations/views.js'

test('the url of a changed pointer is shown without its query, like that of the file', async (t) => {
  const state = {
    domain: 'p.example',
    heldPointer: { url: 'https://cdn.example/adagents.json?sig=planted', since: 0, adoptAt: 86_400_000 },
  }
  const views = createViews({ providers: () => [state] } as unknown as ViewSources)
  const shown = JSON.stringify(await views.providers(new URLSearchParams()))
  t.match(shown, 'https://cdn.example/adagents.json?…')
  t.notMatch(shown, 'planted')
})
