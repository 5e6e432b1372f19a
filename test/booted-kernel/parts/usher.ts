import { fileURLToPath } from 'node:url'
import type { Ran } from '../guest/protocol.ts'
import type { Machine } from '../machine.ts'
import { serviceCidrs } from './services.ts'

/** The host's own files: what the build made, and the node that runs this test. */
const program = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))

const flags = [
  '--manifests=/mnt/services.yaml',
  `--service-cidr=${serviceCidrs}`,
  '--hostname-override=node',
  '--capture=auto',
  '--drain-timeout=1s',
  '--log-format=json',
  '--relay-workers=1', // Each would be a thread more to emulate.
]

/** One that serves. */
export interface VmUsher {
  /** What `--capture auto` took. */
  readonly capture: string
  /** Its exit code after SIGTERM. */
  readonly end: () => Promise<number | undefined>
}

/** Starts `usher run --capture auto` in the machine and waits until it serves. */
export const runUsher = async (machine: Machine, manifests: string): Promise<VmUsher> => {
  await machine.write('/mnt/services.yaml', manifests)
  const usher = await machine.launch(process.execPath, program, 'run', ...flags)
  const log = await usher.said('"msg":"serving"')
  const [, capture = ''] =
    /"capture":"(\w+)".*how traffic for VIPs gets here/.exec(log) ?? []
  return { capture, end: async () => (await usher.end()).code }
}

/** One of Usher's commands that ends by itself. */
export const askUsher = (machine: Machine, ...args: readonly string[]): Promise<Ran> =>
  machine.try(process.execPath, program, ...args)
