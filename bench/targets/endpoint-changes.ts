import type { Endpoint } from '../services.ts'

type Signal = 'SIGHUP' | 'SIGUSR2'

/** A service as its target has it. */
interface Listed {
  readonly name: string
  readonly endpoints: readonly Endpoint[]
}

/**
 * For targets that read their services from a file: each change is a new one by `write`, and
 * `signal` has the process take it over. Rejects for a service that there is not.
 */
export const endpointChanges =
  (services: Listed[], write: () => Promise<unknown>, signal: Signal) =>
  async (
    service: string,
    endpoints: readonly Endpoint[],
    process: { signal(signal: Signal): void },
  ): Promise<void> => {
    const index = services.findIndex(({ name }) => name === service)
    const known = services[index]
    if (known === undefined) throw new Error(`there is no service ${service}`)
    services[index] = { ...known, endpoints }
    await write()
    process.signal(signal)
  }
