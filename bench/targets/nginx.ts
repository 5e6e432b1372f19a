import { existsSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { endpointChanges } from './endpoint-changes.ts'
import type { PeerOptions } from './haproxy.ts'
import { nginxConfig, type NginxService } from './nginx-config.ts'
import { nodePorts } from './node-ports.ts'
import { outputOf, type Program, programProblem } from './program.ts'
import { startProxy } from './start-proxy.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import type { Order, Target } from './target.ts'

export const nginxProgram: Program = {
  command: 'nginx',
  versionArgs: ['-v'],
  packageName: 'nginx',
}

/** nginx with its stream module, TCP and UDP. */
export const nginxTarget = ({
  workDir,
  command = nginxProgram.command,
}: PeerOptions): Target => ({
  name: 'nginx',
  title: 'nginx stream, one worker',
  kind: 'peer',
  unsupportedReason: () => nginxProblem(command),
  start: order => start(order, workDir, command),
})

const nginxProblem = async (command: string): Promise<string> => {
  const why = await programProblem({ ...nginxProgram, command })
  if (why !== '') return why
  return (await nginxStreamModule(command)) === undefined
    ? `${command} has no stream module (Debian package libnginx-mod-stream)`
    : ''
}

const start = async (order: Order, workDir: string, command: string) => {
  const directory = await targetDirectory(workDir, 'nginx')
  const addresses = await nodePorts(order.lane, order.services)
  const services = order.services.flatMap((service): readonly NginxService[] => {
    const listen = addresses.get(service.name)
    return listen === undefined ? [] : [{ ...service, listen }]
  })
  const streamModule = (await nginxStreamModule(command)) ?? ''
  const file = join(directory, 'nginx.conf')
  const write = async (now: readonly NginxService[]): Promise<string> => {
    const config = nginxConfig(now, directory, streamModule)
    // Renamed into place: half of it is never read.
    await writeFile(`${file}.new`, config)
    await rename(`${file}.new`, file)
    return config
  }
  return startProxy(order, {
    name: 'nginx',
    argv: [command, '-p', directory, '-c', file],
    config: shownPart(await write(services)),
    addresses,
    directory,
    // A user namespace has no groups to change to; the worker goes on without.
    ordinary: /initgroups\(.*failed/,
    setEndpoints: endpointChanges(services, () => write(services), 'SIGHUP'),
  })
}

const usualPlaces = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules']

/**
 * What nginx has to load for `stream`: the path of a module, '' when it is built in,
 * undefined when it has none.
 */
const nginxStreamModule = async (command: string): Promise<string | undefined> => {
  const built = await outputOf(command, ['-V'])
  if (/--with-stream(?:\s|$)/m.test(built)) return ''
  const own = /--modules-path=(\S+)/.exec(built)?.[1]
  return [...(own === undefined ? [] : [own]), ...usualPlaces]
    .map(place => join(place, 'ngx_stream_module.so'))
    .find(file => existsSync(file))
}
