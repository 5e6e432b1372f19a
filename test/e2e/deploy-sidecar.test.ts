// A process of its own: kubectl takes its time.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { version } from '../../src/cli/version.ts'
import { parseOptions } from '../../src/config/parse.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import { noKustomize, parseYaml, top } from '../support/deploy.ts'

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number }
  readonly periodSeconds: number
  readonly failureThreshold: number
}

interface Container {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly restartPolicy?: string
  readonly startupProbe?: Probe
  readonly livenessProbe: Probe
}

interface Pod {
  readonly initContainers: readonly Container[]
  readonly containers: readonly Container[]
  readonly terminationGracePeriodSeconds?: number
}

const podOf = (path: string): Pod => {
  const [workload] = parseYaml(readFileSync(`${top}${path}`, 'utf8'), path)
  const { spec } = workload as { spec: { template: { spec: Pod } } }
  return spec.template.spec
}

const native = 'deploy/sidecar/native-sidecar.yaml'
const job = 'deploy/sidecar/job-without-native-sidecars.yaml'

/** Of a container that runs Usher: what its arguments, all of them known, come to. */
const sidecarOf = ({ args: [command, ...flags] }: Container) => {
  if (command !== 'sidecar') throw new Error(`it runs usher ${command}`)
  return parseOptions('sidecar', flags)
}

const named = (containers: readonly Container[], name: string): Container => {
  const found = containers.find(container => container.name === name)
  if (found === undefined) throw new Error(`no container ${name}`)
  return found
}

for (const path of [native, job]) {
  const pod = podOf(path)
  const all = [...pod.initContainers, ...pod.containers]

  t.test(`${path} has no privilege and no token`, async t => {
    t.match(pod, {
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    })
    const ushers = all.filter(({ image }) => image === `usher:${version()}`)
    t.equal(ushers.length, 2)
    for (const usher of ushers)
      t.match(usher, {
        securityContext: {
          runAsUser: 65_532,
          runAsGroup: 65_532,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        resources: { requests: { cpu: /m$/, memory: /Mi$/ }, limits: { memory: /Mi$/ } },
      })
  })

  t.test(`${path} has flags that fit together`, async t => {
    const usher = named(all, 'usher')
    const { healthzBindAddress, route, linger, drainTimeout } = sidecarOf(usher)
    const { startupProbe, livenessProbe } = usher
    t.equal(livenessProbe.httpGet.path, '/livez')
    for (const probe of [livenessProbe, startupProbe ?? livenessProbe])
      t.match(healthzBindAddress, { address: '0.0.0.0', port: probe.httpGet.port })
    const { terminationGracePeriodSeconds = 30 } = pod
    if (linger > 0)
      t.ok(linger + drainTimeout + 5000 <= terminationGracePeriodSeconds * 1000)
    const [command, ...args] = named(all, 'wait-for-database').args
    t.equal(command, 'wait')
    const waits = parseOptions('wait', args).for
    t.equal(waits[0]?.port, route[0]?.listens[0].port)
    t.equal(waits[0]?.viaProxy, path === native, 'only a native sidecar is there by then')
  })
}

t.test('a native sidecar starts first, and the application when it listens', async t => {
  const [usher, wait] = podOf(native).initContainers
  t.match(usher, { name: 'usher', restartPolicy: 'Always' })
  t.match(usher?.startupProbe?.httpGet, { path: '/healthz' })
  const { periodSeconds = 0, failureThreshold = 0 } = usher?.startupProbe ?? {}
  t.ok(periodSeconds * failureThreshold >= 30, 'a resolver that is silent takes 10 s')
  t.equal(wait?.restartPolicy, undefined, 'this one has to end')
})

t.test('without native sidecars it ends by itself, and lingers', async t => {
  const { initContainers, containers } = podOf(job)
  t.ok(initContainers.every(({ restartPolicy }) => restartPolicy === undefined))
  const { linger, exitWhenIdle } = sidecarOf(named(containers, 'usher'))
  t.ok(linger > 0 && exitWhenIdle > 0)
})

t.test('kubectl takes them, and the API server gets them whole', async t => {
  if (noKustomize !== false) return t.comment(`not applied: ${noKustomize}`)
  const server = await startApiServer(t)
  const { stdout } = await promisify(execFile)(
    'kubectl',
    [
      'create',
      ...[native, job].flatMap(path => ['-f', path]),
      `--kubeconfig=${server.kubeconfig()}`,
      `--cache-dir=${t.testdir({})}`,
      '--validate=false',
    ],
    { cwd: top, timeout: 30_000 },
  )
  t.equal(stdout, 'deployment.apps/shop created\njob.batch/report created\n')
  t.match(server.objects('deployments'), [
    { spec: { template: { spec: podOf(native) } } },
  ])
  t.match(server.objects('jobs'), [{ spec: { template: { spec: podOf(job) } } }])
})
