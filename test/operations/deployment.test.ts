/** What deploy/ holds fits the server: its ports, its endpoints, its metrics, its configuration. */
import { readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import { type Test, test } from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { parseConfig } from '../../src/config/load.js'
import { startServer } from '../support/server-fixture.js'
import { COMPOSE, KUBERNETES } from './support/manifests.js'

// biome-ignore lint/suspicious/noExplicitAny: files of other programs
type Read = any

const textOf = (name: string) => readFile(`deploy/${name}`, 'utf8')
/** To accept who had connected, for who is slow to ask and how often that is looked for, and for the longest answer. */
const LONGEST_STOP_MS = 5_000 + 30_000 + 5_000 + 130_000

const SECRET = /PASSWORD|KEY|TOKEN|SECRET/

/** The configuration as a container has it that is given these names. */
async function configFor(names: readonly string[]) {
  const values: Record<string, string> = {
    PUBLIC_URL: 'https://signals.acme.example',
    OPERATIONS_TOKEN_SHA256: 'ab'.repeat(32),
  }
  const environment = Object.fromEntries(names.map((name) => [name, values[name] ?? `${name} `.repeat(8)]))
  return parseConfig('deploy/replicas.yaml', await textOf('replicas.yaml'), environment)
}

async function namesTaken(): Promise<string[]> {
  return [...new Set((await textOf('replicas.yaml')).match(/(?<=\$\{)\w+(?=\})/g))].sort()
}

async function kubernetes(): Promise<Map<string, Read>> {
  const documents = parseAllDocuments(await textOf('kubernetes.yaml'))
  for (const { errors } of documents) if (errors[0]) throw errors[0]
  const all: Read[] = documents.map((document) => document.toJS())
  return new Map(all.map((each) => [each.kind, each]))
}

/** Every address `name:port` in a proxy's file. */
const portsOf = (text: string) =>
  [...text.matchAll(/\btributary(?:-\d)?:(\d+)/g)].map(([, port]) => Number(port))

async function answers(t: Test, paths: readonly string[]): Promise<void> {
  const { send } = await startServer(t)
  for (const path of new Set(paths)) t.equal((await send(path, {})).status, 200, path)
}

test('the configuration loads with the names that each way of running it gives, and takes all of them', async (t) => {
  const compose: Read = parse(await textOf('compose.yaml'))
  const { env } = (await kubernetes()).get('Deployment').spec.template.spec.containers[0]
  const given = {
    compose: Object.keys(compose.services.tributary.environment),
    kubernetes: env.map(({ name }: Read) => name),
  }
  for (const [way, names] of Object.entries(given)) {
    t.same([...names].sort(), await namesTaken(), way)
    const { listen, storage } = await configFor(names)
    t.match(storage.url, /^postgres:/)
    t.equal(storage.keys.length, 1, 'replicas cannot do without a key')
    t.equal(listen.host, '0.0.0.0')
  }
  t.same(compose.networks.inside.ipam.config, [
    { subnet: (await configFor(given.compose)).listen.trustedProxies[0] },
  ])
})

const schemas = new Ajv({ strict: true, allErrors: true })

/** What is wrong with a document, each place once. */
function faults(schema: object, document: unknown): string[] {
  schemas.validate(schema, document)
  return (schemas.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  )
}

/** The document with one member changed, at a path; `undefined` takes it away. */
function changed(document: Read, path: string, value: unknown): Read {
  const copy = structuredClone(document)
  const names = path.split('.')
  const last = names.pop() as string
  const holder = names.reduce((at, name) => at[name], copy)
  if (value === undefined) delete holder[last]
  else holder[last] = value
  return copy
}

test('what Kubernetes and Compose are given has the form that they take', async (t) => {
  const all = await kubernetes()
  t.same([...all.keys()].sort(), Object.keys(KUBERNETES).sort())
  for (const [kind, schema] of Object.entries(KUBERNETES)) t.same(faults(schema, all.get(kind)), [], kind)
  const compose: Read = parse(await textOf('compose.yaml'))
  t.same(faults(COMPOSE, compose), [])
  for (const { depends_on: named = {}, networks = [] } of Object.values<Read>(compose.services)) {
    for (const other of Object.keys(named)) t.ok(compose.services[other], other)
    for (const network of networks) t.ok(network in compose.networks, network)
  }

  const container = 'spec.template.spec.containers.0'
  const wrong: [document: Read, schema: object, path: string, value: unknown][] = [
    [all.get('Deployment'), KUBERNETES.Deployment, `${container}.readinesProbe`, {}],
    [all.get('Deployment'), KUBERNETES.Deployment, `${container}.ports.0.containerPort`, '8080'],
    [all.get('Deployment'), KUBERNETES.Deployment, `${container}.resources.limits.memory`, '4GB'],
    [all.get('Deployment'), KUBERNETES.Deployment, 'spec.selector', undefined],
    [all.get('Deployment'), KUBERNETES.Deployment, 'apiVersion', 'extensions/v1beta1'],
    [all.get('Service'), KUBERNETES.Service, 'spec.sessionAffinity', 'none'],
    [all.get('HorizontalPodAutoscaler'), KUBERNETES.HorizontalPodAutoscaler, 'spec.minReplicas', 0],
    [compose, COMPOSE, 'services.tributary.stop_grace_period', 150],
    [compose, COMPOSE, 'services.tributary.depends', {}],
  ]
  for (const [document, schema, path, value] of wrong) {
    t.ok(faults(schema, changed(document, path, value)).length > 0, `${path}: ${JSON.stringify(value)}`)
  }
})

test('no secret stands in a file', async (t) => {
  const compose: Read = parse(await textOf('compose.yaml'))
  for (const { environment = {} } of Object.values<Read>(compose.services)) {
    for (const [name, value] of Object.entries<string>(environment)) {
      if (SECRET.test(name))
        t.match(value, /^\$\{\w+:\?[^}]+\}$/, `${name} comes from outside, and must be set`)
    }
  }
  const deployment = (await kubernetes()).get('Deployment')
  for (const { name, value, valueFrom } of deployment.spec.template.spec.containers[0].env) {
    if (!SECRET.test(name)) continue
    t.equal(value, undefined, name)
    t.ok(valueFrom.secretKeyRef.key, name)
  }
  t.notOk((await kubernetes()).has('Secret'))
  const config: Read = parse(await textOf('replicas.yaml'))
  for (const secret of [config.storage.key, config.callers.keys[0].token_sha256])
    t.match(secret, /^\$\{\w+\}$/)
  t.match(config.storage.url, /:\$\{PGPASSWORD\}@/)
})

test('the manifests of Kubernetes name each other, ports and probes that exist', async (t) => {
  const all = await kubernetes()
  const [deployment, service, budget, scaler] = [
    'Deployment',
    'Service',
    'PodDisruptionBudget',
    'HorizontalPodAutoscaler',
  ].map((kind) => all.get(kind))
  const { spec, metadata } = deployment.spec.template
  const [container] = spec.containers
  const { listen } = await configFor(await namesTaken())
  t.same(container.ports, [{ name: 'http', containerPort: listen.port }])
  t.equal(service.spec.ports[0].targetPort, 'http')
  t.equal(service.spec.sessionAffinity, 'None')
  for (const selector of [
    service.spec.selector,
    budget.spec.selector.matchLabels,
    deployment.spec.selector.matchLabels,
    spec.topologySpreadConstraints[0].labelSelector.matchLabels,
  ]) {
    t.same(selector, metadata.labels)
  }
  t.match(scaler.spec.scaleTargetRef, { kind: 'Deployment', name: deployment.metadata.name })
  t.equal(deployment.spec.replicas, undefined, 'the autoscaler says how many')
  t.ok(scaler.spec.minReplicas > budget.spec.maxUnavailable)

  const { startupProbe, livenessProbe, readinessProbe } = container
  for (const probe of [startupProbe, livenessProbe, readinessProbe]) t.equal(probe.httpGet.port, 'http')
  t.equal(readinessProbe.httpGet.path, '/readyz')
  t.equal(livenessProbe.httpGet.path, '/healthz', 'one that waits for its upstreams is alive')
  const { periodSeconds, timeoutSeconds, failureThreshold } = readinessProbe
  const seen = (periodSeconds * failureThreshold + timeoutSeconds) * 1_000
  t.ok(seen <= listen.drainMs, 'that it stops is seen before the door closes')
  t.ok(spec.terminationGracePeriodSeconds * 1_000 > LONGEST_STOP_MS + listen.drainMs)
  t.match(await textOf('tributary.service'), `TimeoutStopSec=${spec.terminationGracePeriodSeconds}\n`)
  const { services } = parse(await textOf('compose.yaml'))
  t.equal(services.tributary.stop_grace_period, `${spec.terminationGracePeriodSeconds}s`)
  const config = container.args[container.args.indexOf('--config') + 1]
  t.equal(config, `${container.volumeMounts[0].mountPath}/config.yaml`)
  await answers(
    t,
    [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }: Read) => httpGet.path),
  )
})

test('the autoscaler looks at a metric that is served', async (t) => {
  const [rule] = (parse(await textOf('prometheus-adapter.yaml')) as Read).rules.custom
  const series = rule.seriesQuery.replace(/\{.*/, '')
  const { send } = await startServer(t)
  t.match((await send('/metrics', {})).text, new RegExp(`^# TYPE ${series} counter$`, 'm'))
  const named = series.replace(new RegExp(rule.name.matches), rule.name.as.replaceAll(/[{}]/g, ''))
  const [metric] = (await kubernetes()).get('HorizontalPodAutoscaler').spec.metrics
  t.equal(metric.pods.metric.name, named)
})

test('the proxies lead to the port of the server, keep nobody to one process, and hide what is of one', async (t) => {
  const { listen } = await configFor(await namesTaken())
  const compose: Read = parse(await textOf('compose.yaml'))
  t.ok(compose.services.tributary.deploy.replicas > 1)
  t.notOk(compose.services.tributary.ports, 'only the proxy is reached from outside')
  t.match(compose.services.proxy.volumes[0], /^\.\/nginx\.conf:/)
  t.match(compose.services.tributary.volumes[0], /^\.\/replicas\.yaml:\/etc\/tributary\/config\.yaml:ro$/)
  for (const file of ['nginx.conf', 'Caddyfile']) {
    const text = await textOf(file)
    t.ok(portsOf(text).length > 0, file)
    for (const port of portsOf(text)) t.equal(port, listen.port, file)
    t.notMatch(text, /ip_hash|^\s*hash |sticky|lb_policy (?!least_conn)|cookie/m, `${file}: no affinity`)
    for (const path of ['/metrics', '/readyz'])
      t.match(text, new RegExp(`${path}\\b[^\\n]*\\n?[^\\n]*404`), `${file}: ${path}`)
    t.equal(text.split('{').length, text.split('}').length, `${file}: every bracket is closed`)
  }
  t.match(
    await textOf('nginx.conf'),
    /proxy_set_header X-Forwarded-For \$remote_addr;/,
    'nothing forged goes on',
  )
  t.notMatch(await textOf('nginx.conf'), /non_idempotent/, 'nothing is activated twice by the proxy')
  t.match(await textOf('Caddyfile'), /health_uri \/readyz/)
  const [, published] = compose.services.proxy.ports[0].split(':')
  t.match(await textOf('nginx.conf'), new RegExp(`listen ${published};`))
  await answers(t, ['/readyz', '/metrics'])
})
