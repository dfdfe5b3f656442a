/** What the tests of the page use of the compiled tests, with the types of their sources. */
const of = (/** @type {string} */ path) => import(new URL(`../dist/test/${path}`, import.meta.url).href)

/** @type {typeof import('../test/support/call-tool.js')} */
export const { callTool } = await of('support/call-tool.js')

/** @type {typeof import('../test/support/federation.js')} */
export const { startWorld } = await of('support/federation.js')

/** @type {typeof import('../test/support/upstream-agent.js')} */
export const { startHttp, startMcpAgent } = await of('support/upstream-agent.js')

/** @type {typeof import('../test/console/support/console-world.js')} */
export const { actingOn, BUYER, digest, KEYS, OPERATOR, OTHER, read } = await of(
  'console/support/console-world.js',
)
