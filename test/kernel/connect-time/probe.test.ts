import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { mountsText, whoElseLeads } from '../../../src/kernel/connect-time/probe.ts'
import { makeBpffs } from '../../support/bpffs.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { skip } from './group.ts'
import { endpointsAt, makeStage, serviceTo } from './world.ts'

/** BPF_CGROUP_INET4_CONNECT of programs of the type CGROUP_SOCK_ADDR. */
const [type, attachType] = [18, 10]

/** Attaches a program of this name, which lets all connects go on. */
const attach = (t: Test, bpf: Bpf, cgroup: string, name: string): void => {
  const allow = { code: 0xb7, to: 0, from: 0, offset: 0, value: 1 }
  const exit = { code: 0x95, to: 0, from: 0, offset: 0, value: 0 }
  const program = bpf.loadProgram(
    { name, type, attachType, program: [allow, exit] },
    () => -1,
  )
  const folder = openSync(cgroup, 'r')
  const link = bpf.createLink(program, folder, attachType)
  closeSync(folder)
  bpf.close(program)
  t.teardown(() => bpf.close(link))
}

t.test('programs of others run beside', { skip }, async t => {
  const { client, serve, group } = await makeStage(t)
  const bpf = new Bpf()
  attach(t, bpf, group.path, 'firewall')
  t.equal(whoElseLeads(bpf, group.path, makeBpffs()), '')
  await serve(
    serviceTo('web', [clusterIp('10.96.0.1')], await endpointsAt(client, '127.0.0.11')),
  )
  t.match(await client.tcp('10.96.0.1', 80), { said: /^127.0.0.11 / })
})

t.test("Cilium's are found", { skip }, async t => {
  const { group } = await makeStage(t)
  const bpf = new Bpf()
  const said = /^Cilium's socket load balancing leads clients here/
  const bpffs = makeBpffs()
  t.equal(whoElseLeads(bpf, group.path, bpffs), '')
  const links = join(bpffs, 'cilium/socketlb/links/cgroup')
  mkdirSync(join(links, 'cil_sock4_connect'), { recursive: true })
  t.match(whoElseLeads(bpf, group.path, bpffs), said, 'by its pin')
  rmSync(join(bpffs, 'cilium'), { recursive: true })
  attach(t, bpf, group.path, 'cil_sock4_connect')
  t.match(whoElseLeads(bpf, group.path, bpffs), said, 'by its program')
})

t.test('kernels by which mounts stay at an endpoint', async t => {
  const [before, since] = [
    ['5.8.0', '5.15.0-91-generic', '6.1.0-13-amd64', '6.5.9'],
    ['6.6.0', '6.10.3', '6.18.44-fc', '7.0.0-rc1', '10.1.0'],
  ]
  for (const each of before) t.match(mountsText(each), [/NFS, CIFS, Ceph/], each)
  for (const each of since) t.same(mountsText(each), [], each)
})
