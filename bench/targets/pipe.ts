import { benchProgram, nodeCommand } from '../process/child.ts'
import { startByFile } from './proxy.ts'
import type { Target } from './target.ts'

/** The floor to compare with. */
export const pipe: Target = {
  name: 'pipe',
  title: 'a bare pipe in Node: the least that a relay can be',
  kind: 'floor',
  unsupportedReason: async () => '',
  start: order =>
    startByFile(order, {
      name: 'pipe',
      file: 'routes.json',
      content: routes => JSON.stringify(routes, undefined, 1),
      argv: file => [...nodeCommand(benchProgram('targets/pipe-main')), file],
      // The path of this installation means nothing on another machine.
      command: file => `node pipe-main.js ${file}`,
    }),
}
