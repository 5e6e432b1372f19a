import { runTool } from '../kernel/run-tool.ts'
import type { MadeRelay } from '../relay/make-relay.ts'
import { ownPrivileges } from '../relay/privileges.ts'
import { relayInOwnProcess } from '../relay/supervised/relay-in-own-process.ts'
import type { SupervisedRelayDeps } from '../relay/supervised/supervise-relay.ts'
import { launcherWithLess } from './least-privilege.ts'

/** A relay in a process of its own, with no more privileges than it needs. */
export const ownProcess = async (
  deps: Omit<SupervisedRelayDeps, 'program'>,
): Promise<MadeRelay> =>
  relayInOwnProcess(await launcherWithLess(ownPrivileges(), runTool), deps)
