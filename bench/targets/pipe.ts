import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeCommand, benchProgram } from '../process/child.ts'
import { nodePorts } from './node-ports.ts'
import type { PipeRoute } from './pipe-main.ts'
import { startProxy } from './start-proxy.ts'
import type { Target } from './target.ts'
import { shownPart, targetDirectory } from './target-directory.ts'

/** @param workDir - a directory of it is made under this */
export const pipeTarget = (workDir: string): Target => ({
  name: 'pipe',
  title: 'a bare pipe in Node: the least that a relay can be',
  kind: 'floor',
  unsupportedReason: async () => '',
  start: async order => {
    const directory = await targetDirectory(workDir, 'pipe')
    const addresses = await nodePorts(order.lane, order.services)
    const routes = order.services.flatMap((service): readonly PipeRoute[] => {
      const listen = addresses.get(service.name)
      return listen === undefined ? [] : [{ ...service, listen }]
    })
    const file = join(directory, 'routes.json')
    const config = JSON.stringify(routes, undefined, 1)
    await writeFile(file, config)
    const argv = [...nodeCommand(benchProgram('targets/pipe-main')), file]
    return startProxy(order, {
      name: 'pipe',
      argv,
      // The path of this installation means nothing on another machine.
      command: `node pipe-main.js ${file}`,
      config: shownPart(config),
      addresses,
      directory,
    })
  },
})
