import type { Test } from 'tap'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import { matrix, tryCells } from './cells.ts'
import { faultLines } from './report.ts'
import type { Stage } from './stage.ts'
import type { Way } from './ways.ts'

export const exitLeavesNothing = async (
  t: Test,
  stage: Stage,
  usher: NodeUsher,
  { manner }: Way,
): Promise<void> => {
  // What rules go by is set as kube-proxy sets it; see wanted-sysctls.ts.
  const { sysctls } = await stage.now()
  const closeWait = / = (\d+)$/m.exec(
    sysctls.slice(sysctls.indexOf('nf_conntrack_tcp_timeout_close_wait')),
  )
  t.equal(closeWait?.[1], manner === 'rules' ? '3600' : '60')
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
  t.equal((await stage.now()).all, stage.before.all)
  t.equal((await stage.now()).sysctls, stage.before.sysctls)
}

/** As kube-proxy's rules, which need nobody to carry packets. */
export const exitLeavesRules = async (
  t: Test,
  stage: Stage,
  usher: NodeUsher,
  { label, manner }: Way,
): Promise<void> => {
  const { all } = await stage.now()
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
  t.equal((await stage.now()).all, all)
  const cells = matrix.filter(({ service }) => service.name === 'plain')
  const faults = faultLines(label, await tryCells(cells, stage.agents, manner))
  t.comment(faults.join('\n'))
  t.equal(faults.length, 0, `${cells.length} cells are as they were`)
}
