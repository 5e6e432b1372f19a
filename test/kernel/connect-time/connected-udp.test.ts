import t from 'tap'
import { addressOf } from '../../../src/kernel/connect-time/tables.ts'
import { connectedTo, destroy } from '../../../src/kernel/connect-time/udp-ends.ts'

/** As iproute2 6.1 prints them. */
const output = `0      0            127.0.0.1%lo:40541          127.0.0.11:5353 ino:534416 sk:5 cgroup:/ <->
0      0               127.0.0.1:7777           127.0.0.11:5353 uid:33 ino:534419 sk:8f cgroup:/a sk:1 <->
0      0      [::ffff:127.0.0.1]:7777  [::ffff:127.0.0.11]:5353 ino:534414 sk:3 cgroup:/ <->
0      0    [fe80::1]%eth0:38642                [2001:db8::1]:5353 ino:534415 sk:abcdef012 cgroup:/ v6only:0 <->
`

t.test('sockets are read from what ss prints', async t => {
  const found = await connectedTo(
    () => Promise.resolve(output),
    [{ address: '127.0.0.11', port: 5353 }],
  )
  t.same(
    found.map(({ cookie, local, peer }) => [cookie, local, peer]),
    [
      ['5', '127.0.0.1:40541', '127.0.0.11:5353'],
      ['8f', '127.0.0.1:7777', '127.0.0.11:5353'],
      ['3', '[::ffff:127.0.0.1]:7777', '[::ffff:127.0.0.11]:5353'],
      ['abcdef012', '[fe80::1]:38642', '[2001:db8::1]:5353'],
    ],
  )
  t.equal(found[1]?.ends, found[2]?.ends, 'IPv4, by a socket of either family')
  t.equal(found[3]?.endpoint, addressOf('2001:db8::1', 5353, 'UDP'))
})

t.test('a filter is no longer than the kernel takes', async t => {
  const endpoints = Array.from({ length: 250 }, (_, n) => ({
    address: '::1',
    port: n + 1,
  }))
  const filters: string[] = []
  await connectedTo(args => {
    filters.push(args.at(-1) ?? '')
    return Promise.resolve('')
  }, endpoints)
  t.same(
    filters.map(each => each.split(' or ').length),
    [100, 100, 50],
  )
  t.equal(
    filters.join(' or '),
    endpoints.map(({ port }) => `dst [::1]:${port}`).join(' or '),
  )
})

t.test('what ss does not tell is noticed', async t => {
  const line = '0      0      127.0.0.1:40541          127.0.0.11:5353'
  const runSs = () => Promise.resolve(`${line}\n`)
  await t.rejects(connectedTo(runSs, [{ address: '127.0.0.11', port: 5353 }]), {
    message: /UDP_DIAG/,
  })
  const sockets = await connectedTo(
    () => Promise.resolve(output),
    [{ address: '127.0.0.11', port: 5353 }],
  )
  t.match(await destroy(runSs, sockets), /CAP_NET_ADMIN/)
  t.equal(await destroy(() => Promise.resolve(output), sockets), undefined)
})
