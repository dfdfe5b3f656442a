/** An account, filters, destinations and countries are of somebody's request: explain asks whose, and never leaves them unlooked at. */
import { test } from 'tap'
import { OPERATOR, startOver } from '../support/federation-over.js'

test('what a request asks for is refused where nobody is named whose request it is', async (t) => {
  const { federation } = await startOver(t, [])
  const headers = { authorization: `Bearer ${OPERATOR}` }
  const ask = (question: string) => fetch(`${federation.url}/explain?ref=sig_x&${question}`, { headers })
  for (const question of [
    'filters={"max_cpm":1}',
    'country=DE',
    'account=acc',
    'destinations=[{"type":"platform","platform":"dv360"}]',
  ]) {
    const reply = await ask(question)
    t.equal(reply.status, 400, question)
    t.match(await reply.json(), { parameter: 'caller', error: /^Invalid caller: .*whose request/ }, question)
    t.equal(
      (await ask(`${question}&caller=buyer`)).status,
      question.startsWith('account') ? 400 : 200,
      question,
    )
  }
  const nobody = await ask('caller=nobody')
  t.equal(nobody.status, 400, 'whether the signal is there or not')
  t.match(await nobody.json(), { parameter: 'caller', error: /no caller of the configuration/ })
})
