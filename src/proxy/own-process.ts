import { fileURLToPath } from 'node:url'
import { dataPlaneUser } from '../kernel/data-plane-user.ts'
import { type RunTool, ToolError, runTool } from '../kernel/run-tool.ts'
import {
  hasCapability,
  isExcessive,
  killOthers,
  netBindService,
  type Privileges,
  setGid,
  setPcap,
  setUid,
  ownPrivileges,
} from '../relay/privileges.ts'
import { portableDetail } from '../relay/choose-relay.ts'
import type { MadeRelay } from '../relay/make-relay.ts'
import { ProbeCrashed } from '../relay/supervised/data-plane-process.ts'
import {
  dataPlaneProgram,
  type Launcher,
} from '../relay/supervised/data-plane-program.ts'
import {
  SupervisedRelay,
  type SupervisedRelayDeps,
} from '../relay/supervised/supervise-relay.ts'
import { programFile } from '../util/own-files.ts'

/**
 * A relay in a process of its own (the data plane), with no more privileges than it needs; another one is
 * started when it dies. A crash of the first one while `auto` looks for what works is a reason for
 * the portable relay. Rejects as `SupervisedRelay.chosen` does, and then nothing is left of it.
 */
export const ownProcess = async (
  deps: Omit<SupervisedRelayDeps, 'program'>,
): Promise<MadeRelay> => {
  const { command, reason } = await launcherWithLess(
    ownPrivileges(),
    runTool,
    deps.orphan === undefined,
  )
  const program = dataPlaneProgram(command)
  try {
    return await started({ ...deps, program }, reason)
  } catch (error) {
    if (!(error instanceof ProbeCrashed)) throw error
    const { relay, choice } = await started(
      { ...deps, program, relay: 'portable' },
      reason,
    )
    const passedOver = [{ name: 'linux', detail: error.message }] as const
    return { relay, choice: { ...choice, detail: portableDetail, passedOver } }
  }
}

const started = async (
  deps: SupervisedRelayDeps,
  excessReason: string,
): Promise<MadeRelay> => {
  const relay = new SupervisedRelay(deps)
  const { choice, privileges } = await relay.chosen
  const isTooMuch = privileges !== undefined && isExcessive(privileges)
  const excess = isTooMuch ? excessReason || 'they could not be taken away' : ''
  return { relay, choice: { ...choice, ownProcess: { privileges, excess } } }
}

/**
 * How the data plane is started with what it needs and no more: by setpriv(1), as
 * capabilities are each thread's own, and once Node runs its threads have them. It keeps
 * CAP_NET_BIND_SERVICE, where there is one, for listeners below port 1024; never gains
 * another; and gets a user of its own, who can't read root's files. Never rejects.
 */
export const launcherWithLess = async (
  own: Privileges | undefined,
  run: RunTool,
  endsWithThis = true,
): Promise<Launcher> => {
  // Not Linux.
  if (own === undefined) return { command: [], reason: '' }
  let problem = ''
  for (const args of waysDown(own, endsWithThis)) {
    const refused = await tryOut(args, run)
    if (refused === '')
      return { command: ['setpriv', ...args], reason: problem || rootProblem(own) }
    problem ||= refused
  }
  return { command: [], reason: isExcessive(own) ? problem : '' }
}

/** Arguments of setpriv, the best first. */
const waysDown = (
  own: Privileges,
  endsWithThis: boolean,
): readonly (readonly string[])[] => {
  const kept = hasCapability(own, netBindService) ? '-all,+net_bind_service' : '-all'
  const less = [
    '--no-new-privs',
    // Also when this process ends while that one is too busy to notice.
    ...(endsWithThis ? ['--pdeathsig=KILL'] : []),
    `--inh-caps=${kept}`,
    `--ambient-caps=${kept}`,
    ...(hasCapability(own, setPcap) ? [`--bounding-set=${kept}`] : []),
  ]
  const user = [`--reuid=${dataPlaneUser}`, `--regid=${dataPlaneUser}`, '--clear-groups']
  return mayChangeUser(own) ? [[...user, ...less], less] : [less]
}

/** Without CAP_KILL a data plane of another user that hangs could never be ended: kill(2). */
const mayChangeUser = (own: Privileges): boolean =>
  own.uid === 0 && [setUid, setGid, killOthers].every(bit => hasCapability(own, bit))

/** Why nothing more can go; '' when there is no reason. */
const rootProblem = (own: Privileges): string =>
  own.uid === 0 && !mayChangeUser(own)
    ? 'to give it a user of its own takes CAP_SETUID, CAP_SETGID and CAP_KILL'
    : ''

/** Why the data plane can't be started that way; '' when it can. */
const tryOut = async (args: readonly string[], run: RunTool): Promise<string> => {
  const code = fileURLToPath(programFile('data-plane'))
  try {
    await run('setpriv', [...args, 'test', '-r', code, '-a', '-x', process.execPath])
    return ''
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    if (error.failure === 'failed' && error.stderr === '')
      return `user ${dataPlaneUser} may not read ${code}, or not run ${process.execPath}`
    return error.failure === 'missing'
      ? 'setpriv, which takes them away, is not installed (Debian package util-linux)'
      : error.message
  }
}
