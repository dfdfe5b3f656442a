/**
 * What Kubernetes and Compose take of the fields that deploy/ uses, by their published references (Kubernetes API: apps/v1
 * Deployment, v1 Service, policy/v1 PodDisruptionBudget, autoscaling/v2 HorizontalPodAutoscaler; the Compose
 * Specification). Written here, because the whole schemas are megabytes that come from the network. They are closed: a
 * field that is not here is a mistake, or is to be looked up and added.
 */
import { Type as T, type TObject, type TProperties, type TSchema } from '@sinclair/typebox'

const closed = <P extends TProperties>(properties: P) => T.Object(properties, { additionalProperties: false })
const optional = <S extends TSchema>(schema: S) => T.Optional(schema)
const label = T.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 })
const labels = T.Record(T.String({ pattern: '^[A-Za-z0-9./_-]+$' }), label)
const quantity = T.String({ pattern: '^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$' })
const seconds = T.Integer({ minimum: 1 })
const port = T.Integer({ minimum: 1, maximum: 65_535 })
const portName = T.String({ pattern: '^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$' })
const countOrShare = T.Union([T.Integer({ minimum: 0 }), T.String({ pattern: '^[0-9]+%$' })])
const selector = closed({ matchLabels: labels })

const kind = <S extends TObject>(apiVersion: string, name: string, spec: S) =>
  closed({
    apiVersion: T.Literal(apiVersion),
    kind: T.Literal(name),
    metadata: closed({ name: label, labels: optional(labels) }),
    spec,
  })

const probe = closed({
  httpGet: closed({ path: T.String({ pattern: '^/' }), port: T.Union([port, portName]) }),
  periodSeconds: optional(seconds),
  timeoutSeconds: optional(seconds),
  failureThreshold: optional(seconds),
})

const variable = T.Union([
  closed({ name: T.String(), value: T.String() }),
  closed({
    name: T.String(),
    valueFrom: closed({
      secretKeyRef: closed({ name: label, key: T.String({ pattern: '^[-._a-zA-Z0-9]+$' }) }),
    }),
  }),
])

const resources = closed({ cpu: optional(quantity), memory: optional(quantity) })

const container = closed({
  name: label,
  image: T.String({ minLength: 1 }),
  args: T.Array(T.String()),
  ports: T.Array(closed({ name: portName, containerPort: port })),
  env: T.Array(variable),
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  resources: closed({ requests: optional(resources), limits: optional(resources) }),
  securityContext: closed({
    allowPrivilegeEscalation: T.Boolean(),
    readOnlyRootFilesystem: T.Boolean(),
    capabilities: closed({ drop: T.Array(T.String()) }),
  }),
  volumeMounts: T.Array(
    closed({ name: label, mountPath: T.String({ pattern: '^/' }), readOnly: T.Boolean() }),
  ),
})

const pod = closed({
  automountServiceAccountToken: T.Boolean(),
  terminationGracePeriodSeconds: T.Integer({ minimum: 0 }),
  securityContext: closed({
    runAsNonRoot: T.Boolean(),
    runAsUser: T.Integer({ minimum: 1 }),
    seccompProfile: closed({ type: T.Union([T.Literal('RuntimeDefault'), T.Literal('Unconfined')]) }),
  }),
  topologySpreadConstraints: T.Array(
    closed({
      maxSkew: T.Integer({ minimum: 1 }),
      topologyKey: T.String(),
      whenUnsatisfiable: T.Union([T.Literal('ScheduleAnyway'), T.Literal('DoNotSchedule')]),
      labelSelector: selector,
    }),
  ),
  containers: T.Array(container, { minItems: 1 }),
  volumes: T.Array(closed({ name: label, configMap: closed({ name: label }) })),
})

const deployment = closed({
  replicas: optional(T.Integer({ minimum: 0 })),
  selector,
  strategy: closed({
    type: T.Literal('RollingUpdate'),
    rollingUpdate: closed({ maxUnavailable: countOrShare, maxSurge: countOrShare }),
  }),
  template: closed({ metadata: closed({ labels }), spec: pod }),
})

const service = closed({
  selector: labels,
  sessionAffinity: T.Union([T.Literal('None'), T.Literal('ClientIP')]),
  ports: T.Array(closed({ name: portName, port, targetPort: T.Union([port, portName]) })),
})

const scaler = closed({
  scaleTargetRef: closed({ apiVersion: T.String(), kind: T.String(), name: label }),
  minReplicas: T.Integer({ minimum: 1 }),
  maxReplicas: T.Integer({ minimum: 1 }),
  metrics: T.Array(
    closed({
      type: T.Literal('Pods'),
      pods: closed({
        metric: closed({ name: T.String({ minLength: 1 }) }),
        target: closed({ type: T.Literal('AverageValue'), averageValue: quantity }),
      }),
    }),
  ),
  behavior: closed({
    scaleDown: closed({ stabilizationWindowSeconds: T.Integer({ minimum: 0, maximum: 3_600 }) }),
  }),
})

/** By their kind. */
export const KUBERNETES = {
  Deployment: kind('apps/v1', 'Deployment', deployment),
  Service: kind('v1', 'Service', service),
  PodDisruptionBudget: kind(
    'policy/v1',
    'PodDisruptionBudget',
    closed({ maxUnavailable: countOrShare, selector }),
  ),
  HorizontalPodAutoscaler: kind('autoscaling/v2', 'HorizontalPodAutoscaler', scaler),
}

const duration = T.String({ pattern: '^([0-9]+(us|ms|s|m|h))+$' })
const name = T.String({ pattern: '^[a-zA-Z0-9._-]+$' })

const composeService = closed({
  image: optional(T.String({ minLength: 1 })),
  build: optional(T.String()),
  deploy: optional(closed({ replicas: T.Integer({ minimum: 0 }) })),
  ports: optional(T.Array(T.String({ pattern: '^([0-9.]+:)?[0-9]+:[0-9]+$' }))),
  environment: optional(T.Record(name, T.String())),
  volumes: optional(T.Array(T.String({ pattern: '^[^:]+:/[^:]*(:ro)?$' }))),
  depends_on: optional(
    T.Record(
      name,
      closed({ condition: T.Union([T.Literal('service_healthy'), T.Literal('service_started')]) }),
    ),
  ),
  healthcheck: optional(
    closed({
      test: T.Array(T.String(), { minItems: 2 }),
      interval: duration,
      timeout: duration,
      retries: T.Integer({ minimum: 1 }),
    }),
  ),
  networks: optional(T.Array(name)),
  restart: optional(T.Union([T.Literal('unless-stopped'), T.Literal('always'), T.Literal('no')])),
  read_only: optional(T.Boolean()),
  cap_drop: optional(T.Array(T.String())),
  security_opt: optional(T.Array(T.String())),
  mem_limit: optional(T.String({ pattern: '^[0-9]+[bkmg]$' })),
  stop_grace_period: optional(duration),
})

export const COMPOSE = closed({
  name: label,
  services: T.Record(name, composeService),
  networks: T.Record(
    name,
    closed({
      ipam: closed({ config: T.Array(closed({ subnet: T.String({ pattern: '^[0-9.]+/[0-9]+$' }) })) }),
    }),
  ),
  volumes: T.Record(name, T.Null()),
})
