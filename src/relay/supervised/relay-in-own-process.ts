import { portableDetail } from '../choose-relay.ts'
import type { MadeRelay } from '../make-relay.ts'
import { isExcessive } from '../privileges.ts'
import { dataPlaneProgram, type Launcher } from './data-plane-program.ts'
import { ProbeCrashed } from './data-plane-process.ts'
import { SupervisedRelay, type SupervisedRelayDeps } from './supervise-relay.ts'

/**
 * Starts the data plane by way of `launcher`, and another one when it dies. A crash of
 * the first one while `auto` looks for what works is a reason for the portable relay.
 * Rejects as `SupervisedRelay.chosen` does, and then nothing is left of it.
 */
export const relayInOwnProcess = async (
  { command, why }: Launcher,
  deps: Omit<SupervisedRelayDeps, 'program'>,
): Promise<MadeRelay> => {
  const program = dataPlaneProgram(command)
  try {
    return await started({ ...deps, program }, why)
  } catch (error) {
    if (!(error instanceof ProbeCrashed)) throw error
    const { relay, choice } = await started({ ...deps, program, relay: 'portable' }, why)
    const passedOver = [{ name: 'linux', detail: error.message }] as const
    return { relay, choice: { ...choice, detail: portableDetail, passedOver } }
  }
}

const started = async (
  deps: SupervisedRelayDeps,
  whyExcess: string,
): Promise<MadeRelay> => {
  const relay = new SupervisedRelay(deps)
  const { choice, privileges } = await relay.chosen
  const isTooMuch = privileges !== undefined && isExcessive(privileges)
  const excess = isTooMuch ? whyExcess || 'they could not be taken away' : ''
  return { relay, choice: { ...choice, ownProcess: { privileges, excess } } }
}
