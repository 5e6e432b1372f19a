import { fileURLToPath } from 'node:url'
import type { Launched, Machine } from '../machine.ts'
import { serviceCidrs } from './services.ts'

/** The host's own files: what the build made, and the node that runs this test. */
const program = process.env['USHER_PROGRAM'] ?? fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))

/** Starts `usher run` in the machine, with that capture, and waits until it serves. */
export const runUsher = async (
  machine: Machine,
  manifests: string,
  capture: string,
): Promise<Launched> => {
  await machine.write('/mnt/services.yaml', manifests)
  if (process.env['USHER_PROGRAM']) {
  await machine.run('bash', '-c', 'ip route add local 10.96.0.0/16 dev lo; ip -6 route add local fd10:96::/112 dev lo; echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind')
  capture = 'local'
  }
  const usher = await machine.launch(
    process.execPath,
    program,
    ...['run', '--manifests', '/mnt/services.yaml', '--capture', capture],
    ...process.env['USHER_PROGRAM'] ? [] : ['--service-cidr', serviceCidrs],
    ...['--hostname-override', 'node'],
    ...['--drain-timeout', '1s', '--log-format', 'json'],
  )
  await usher.said('"msg":"serving"')
  return usher
}

/** One of Usher's commands that ends by itself. */
export const askUsher = (machine: Machine, ...args: readonly string[]) =>
  machine.try(process.execPath, program, ...args)
