import type { OptionsOf } from '../config/options.ts'
import { commands } from '../config/commands.ts'
import { UsageError } from '../config/usage-error.ts'
import { createLog, type Log } from '../observe/log.ts'
import { turnLog } from '../proxy/service-checks.ts'
import { clashText } from '../source/routes/decode-route.ts'
import { faultText, readRoutes, readRoutesText } from '../source/routes/read-routes.ts'
import { resolveBy, resolveSrvBy } from '../source/routes/own-resolver.ts'
import { hostWatchTimes } from '../source/routes/host-watch.ts'
import { ListFiles } from '../source/routes/list-files.ts'
import { routeSource } from '../source/routes/route-source.ts'
import { watchedRoutes } from '../source/routes/watched-routes.ts'
import type { Source } from '../source/source.ts'
import { isLoopback, joinHostPort } from '../util/ip.ts'
import { firstFew } from '../util/printable.ts'
import { messageOf } from '../util/usher-error.ts'
import { relayLimits, relayOptions } from './relay-limits.ts'
import { serve } from './serve.ts'
import { version } from './version.ts'
import type { RunningProxy } from '../proxy/options.ts'
import type { Stop } from './stop.ts'

/** `usher sidecar`: listens where its routes say, on addresses of this host. */
export const sidecar = async (options: OptionsOf<'sidecar'>): Promise<number> => {
  const log = await createLog({ level: options.logLevel, format: options.logFormat })
  const deps = {
    source: await routesOf(options, log),
    options: {
      version: version(),
      capture: 'vips-only',
      captureAdvice: 'give a route an address of this host to listen on',
      bindAddress: '127.0.0.1',
      proxyPortRange: undefined,
      metricsBindAddress: options.metricsBindAddress,
      healthzBindAddress: options.healthzBindAddress,
      controlSocket: options.controlSocket,
      bindHardFail: true,
      periods: () => ({ syncPeriod: 30_000, minSyncPeriod: 1000 }),
      ...relayOptions(options),
      // Nothing is started here: routes need no tools.
      sharesProcess: true,
      limits: relayLimits(options),
    },
  } as const
  const { exitWhenIdle: idleMs } = options
  return serve(
    {
      log,
      deps,
      mustListen: true,
      takeOver: options.takeOver === 'auto' ? options.controlSocket : undefined,
      pod: { lingerMs: options.linger, quitByHttp: quitByHttp(options) },
      ...(idleMs > 0 && {
        watch: (stop, proxy) => exitWhenIdle(stop, proxy, idleMs, log),
      }),
    },
    options,
  )
}

/** Who reaches the address could end Usher; within a pod that is who could end it anyway. */
const quitByHttp = (options: OptionsOf<'sidecar'>): boolean => {
  const { quitquitquit, metricsBindAddress: bind } = options
  if (!quitquitquit || (bind !== undefined && isLoopback(bind.address)))
    return quitquitquit
  const is = bind === undefined ? 'off' : joinHostPort(bind.address, bind.port)
  throw new UsageError(
    `--quitquitquit: the metrics address must be a loopback address, but is ${is}; give --metrics-bind-address 127.0.0.1:10249`,
    'sidecar',
  )
}

/** What is wrong with routes is a mistake in the call. */
const wrongCall = (message: string): UsageError => new UsageError(message, 'sidecar')

const routesOf = async (
  { route, config, resolver, dnsTtlLimit }: OptionsOf<'sidecar'>,
  log: Log,
): Promise<Source> => {
  const onError = ({ message }: Error): void =>
    log.warn({ why: message }, 'a host name could not be resolved')
  const own = {
    times: { ...hostWatchTimes, longestTtlMs: Math.max(1000, dnsTtlLimit) },
    ...(resolver.length > 0 && {
      resolve: resolveBy(resolver),
      resolveSrv: resolveSrvBy(async () => resolver),
    }),
  }
  const onTurn = turnLog(log, 'route')
  const lists = new ListFiles({
    onTaken: file => log.info({ file }, 'client list reloaded'),
    onUnusable: (file, reason) =>
      log.error(
        { file, reason },
        'the changed client list cannot be used; keeping the old list',
      ),
  })
  const clash = clashText(route)
  if (clash !== '') throw wrongCall(clash)
  if (config !== '') {
    const { text, routes } = await startFile(config, route)
    await loadLists(lists, [...route, ...routes])
    return watchedRoutes({
      ...own,
      path: config,
      lists,
      fixed: route,
      text,
      routes,
      onError,
      onTurn,
      onTaken: ({ length }) =>
        log.info({ file: config, routes: length }, 'routes file reloaded'),
      onUnusable: reason =>
        log.error(
          { file: config, reason },
          'the changed routes file cannot be used; keeping the old routes',
        ),
    })
  }
  if (route.length === 0) throw wrongCall(commands.sidecar.needs.message)
  await loadLists(lists, route)
  return routeSource({ ...own, lists, routes: route, onError, onTurn })
}

/** Files of clients as they are at the start, when none is known that could stand. */
const loadLists = async (
  lists: ListFiles,
  routes: OptionsOf<'sidecar'>['route'],
): Promise<void> => {
  const faults = await lists.load(routes)
  if (faults.length === 0) return
  throw wrongCall(firstFew(faults.map(({ file, message }) => `${file}: ${message}`)))
}

/** The file as it is at the start, when there are no routes yet that could stand. */
const startFile = async (path: string, fixed: OptionsOf<'sidecar'>['route']) => {
  const file = `--config ${path}`
  let text: string
  try {
    text = await readRoutesText(path)
  } catch (error) {
    throw wrongCall(`${file}: ${messageOf(error)}`)
  }
  const { routes, faults } = await readRoutes(text, fixed)
  if (faults.length > 0) throw wrongCall(`${file}: ${firstFew(faults.map(faultText))}`)
  return { text, routes }
}

/** How often it is looked at: four times in the idle time, at most once a second. */
const periodOf = (idleMs: number): number => Math.min(1000, Math.max(10, idleMs / 4))

/**
 * Asks Usher to end when no connection has been open for `idleMs`. Before the first one it waits
 * for ever: the application may take long to begin. Gives what ends the watch.
 */
const exitWhenIdle = (
  stop: Stop,
  proxy: Pick<RunningProxy, 'connections'>,
  idleMs: number,
  log: Log,
): (() => void) => {
  let before = 0
  let idleSince: number | undefined
  const check = async (): Promise<void> => {
    const { open, accepted } = await proxy.connections()
    const now = performance.now()
    // One that came and went since the last look counts too.
    const isIdle = open === 0 && accepted === before
    before = accepted
    idleSince = isIdle ? (idleSince ?? now) : undefined
    if (accepted === 0 || idleSince === undefined || now - idleSince < idleMs) return
    const idle = Math.round(now - idleSince)
    const reason = `nothing has been open for ${idle} ms (--exit-when-idle)`
    stop.request({ code: 0, reason })
  }
  const timer = setInterval(() => {
    check().catch((err: unknown) =>
      log.error({ err }, 'cannot count the open connections'),
    )
  }, periodOf(idleMs))
  return () => clearInterval(timer)
}
