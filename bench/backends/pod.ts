import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PodCalls } from './main.ts'
import { backlog } from './servers.ts'
import { benchProgram, callsTo, startChild } from '../process/child.ts'
import { processTree } from '../process/usage.ts'
import type { Backends } from '../scenarios/scenario.ts'
import type { Endpoint, PodPorts, StandardService } from '../services.ts'
import { nginxMain } from '../targets/nginx.ts'
import { ProxyProcess } from '../targets/proxy.ts'
import { awaitServing, freePorts } from '../topology/probe.ts'
import type { Lane, Place } from '../topology/topology.ts'

/** What the pods serve, by the addresses that they have for one node. */
export const backendsOf = (pods: readonly Pod[], lane: Lane): Backends => {
  const at = (pod: number, port: number): Endpoint => {
    const address = lane.podAddresses[pod]
    if (address === undefined) throw new Error(`the node knows no pod ${pod + 1}`)
    return { address, port }
  }
  return {
    endpoints: (service: StandardService) =>
      pods.map((pod, index) => at(index, pod.ports[service])),
    refusing: count => {
      const closed = closedEndpoints(pods, at)
      if (closed.length >= count) return closed.slice(0, count)
      throw new Error(`${count} endpoints that refuse: there are only ${closed.length}`)
    },
    silent: at(0, pods[0]?.silentPort ?? 0),
  }
}

/** One of each pod by turns, each once: on one host pods share their ports. */
const closedEndpoints = (
  pods: readonly Pod[],
  at: (pod: number, port: number) => Endpoint,
): readonly Endpoint[] => {
  const found = new Map<string, Endpoint>()
  const most = Math.max(0, ...pods.map(pod => pod.closedPorts.length))
  for (let turn = 0; turn < most; turn += 1)
    for (const [index, { closedPorts }] of pods.entries()) {
      const port = closedPorts[turn]
      if (port === undefined) continue
      const endpoint = at(index, port)
      found.set(`${endpoint.address}:${port}`, endpoint)
    }
  return [...found.values()]
}

const readyWithinMs = 15_000

/** nginx as the `http` backend, with its files in `directory`, which is made. */
const startHttpNginx = async (place: Place, directory: string) => {
  await mkdir(directory, { recursive: true })
  const near = place.listenAddress === '0.0.0.0' ? '127.0.0.1' : place.listenAddress
  const [port = 0] = await freePorts(place, near, 1)
  const file = join(directory, 'nginx.conf')
  await writeFile(file, httpConfig(directory, place.listenAddress, port))
  const nginx = new ProxyProcess(place, ['nginx', '-p', directory, '-c', file])
  const address = { name: 'http', protocol: 'TCP', address: near, port } as const
  const wait = { within: readyWithinMs, ended: nginx.ended }
  const why = await awaitServing(place, [address], wait)
  if (why === '') return { port, process: nginx }
  await nginx.stop()
  throw new Error(`nginx as a backend ${why}: ${nginx.lastWords()}`)
}

/**
 * The body of 16 KiB is put together because a string of nginx's configuration ends at
 * 4 KiB; a file of that size is slower (measured: up to a third). Kept connections are
 * kept, however many requests they carry.
 */
const httpConfig = (directory: string, listen: string, port: number): string => `\
${nginxMain(directory)}
http {
  access_log off;
  default_type text/plain;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
${temporaryPaths}
  server {
    listen ${listen}:${port} backlog=${backlog};
    set $part "${'u'.repeat(2048)}";
    location = /64 { return 200 "${'u'.repeat(64)}"; }
    location = /16384 { return 200 "${'$part'.repeat(8)}"; }
    location / { return 404; }
  }
}
`

/** Their defaults may be places where only root can write; relative to -p. */
const temporaryPaths = ['client_body', 'proxy', 'fastcgi', 'scgi', 'uwsgi']
  .map(name => `  ${name}_temp_path ${name};`)
  .join('\n')

/**
 * glibc gives memory back to the kernel whenever some is free, and a sink that reads as fast
 * as it can spends half of its time on getting it again (mallopt(3)). Others ignore it.
 */
const keepingMemory = [
  'env',
  'MALLOC_TRIM_THRESHOLD_=268435456',
  'MALLOC_MMAP_THRESHOLD_=268435456',
] as const

const startsWithinMs = 30_000

/** A backend pod that serves. */
export interface Pod {
  readonly ports: PodPorts
  /** Takes no connection and does not refuse either. */
  readonly silentPort: number
  /** Ports that were tried and refuse connections. */
  readonly closedPorts: readonly number[]
  /** All of its processes, those of nginx too. */
  pids(): readonly number[]
  stop(): Promise<void>
}

interface PodOptions {
  /** `own` where nginx isn't installed. */
  readonly http: 'nginx' | 'own'
  /** A directory of this pod's own; made when nginx needs it. */
  readonly workDir: string
}

/** Starts the backends of one pod. Rejects with the reason when they don't serve. */
export const startPod = async (place: Place, options: PodOptions): Promise<Pod> => {
  const child = startChild(benchProgram('backends/main'), [
    ...place.enter,
    ...keepingMemory,
  ])
  let nginx: Awaited<ReturnType<typeof startHttpNginx>> | undefined
  try {
    const { serve } = callsTo<PodCalls>(child, startsWithinMs)
    const served = await serve(place.listenAddress, options.http === 'own')
    if (options.http === 'nginx')
      nginx = await startHttpNginx(place, join(options.workDir, 'nginx'))
    const { source, sink, udp, silent, closed } = served
    return {
      ports: { http: nginx?.port ?? served.http, source, sink, udp },
      silentPort: silent,
      closedPorts: closed,
      pids: () => [...processTree(child.pid), ...(nginx?.process.pids() ?? [])],
      stop: async () => {
        await Promise.all([child.stop(), nginx?.process.stop()])
      },
    }
  } catch (error) {
    await child.stop()
    throw error
  }
}
