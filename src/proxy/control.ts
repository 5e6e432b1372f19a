import type { Route, Routes } from '../observe/admin-routes.ts'
import { type ControlServer, startControlServer } from '../observe/control-server.ts'
import type { DataPath } from './data-path.ts'
import { askedRoute, commandRoute, type ControlDeps } from './control/carry-out.ts'
import { close, connections, ended } from './control/connections.ts'
import { drain, pause, resume, undrain, weight } from './control/endpoint-orders.ts'
import { explain } from './control/explain.ts'
import { takingOver } from './control/take-over.ts'
import type { Shared } from './options.ts'

type StartDeps = Pick<Shared, 'options' | 'clock' | 'log' | 'orders'> &
  Pick<ControlDeps, 'reconciler' | 'around' | 'replaced' | 'watchdogMs'> & {
    readonly traffic: {
      readonly mode: ControlDeps['mode']
      readonly dataPath: () =>
        Pick<DataPath, 'relay' | 'captureChoice' | 'proxyPorts'> | undefined
    }
  }

/** Listens on the control socket, if there is to be one. Rejects with CANNOT_LISTEN. */
export const startControl = async (
  deps: StartDeps & {
    /** That of the metrics address, for `usher get`. */
    readonly status: Route
  },
): Promise<ControlServer | undefined> => {
  const { controlSocket: path = '' } = deps.options
  if (path === '') return undefined
  const { clock, log, status } = deps
  const commands = commandRoutes(controlDeps(deps))
  const routes = new Map([...commands, ['/status', status]])
  return startControlServer({ path, routes, log, clock })
}

/** What the metrics address answers beside its own pages. */
export const askedRoutes = (deps: StartDeps): Routes => askedOf(controlDeps(deps))

const askedOf = (deps: ControlDeps): Routes =>
  new Map([
    askedRoute('connections', connections, deps),
    askedRoute('ended', ended, deps),
    askedRoute('explain', explain, deps),
  ])

const controlDeps = ({
  traffic: { mode, dataPath },
  ...deps
}: StartDeps): ControlDeps => ({
  ...deps,
  mode,
  relay: () => dataPath()?.relay,
  capture: () => dataPath()?.captureChoice().name ?? '',
  proxyPorts: () => dataPath()?.proxyPorts() ?? [],
})

const commandRoutes = (deps: ControlDeps): Routes => {
  const { handler, orders } = takingOver()
  return new Map([
    commandRoute('pause', orders(pause), deps),
    commandRoute('resume', orders(resume), deps),
    commandRoute('drain', orders(drain), deps),
    commandRoute('undrain', orders(undrain), deps),
    commandRoute('weight', orders(weight), deps),
    commandRoute('connections', connections, deps),
    commandRoute('ended', ended, deps),
    commandRoute('explain', explain, deps),
    commandRoute('close', close, deps),
    commandRoute('take-over', handler, deps),
  ])
}
