import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { SyslogSink } from '../../../src/observe/access-log/sink.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

const server = async (t: Test, port = 0): Promise<[Socket, string[]]> => {
  const heard: string[] = []
  const socket = createSocket('udp4', message => void heard.push(message.toString()))
  socket.bind(port, testHost)
  await once(socket, 'listening')
  t.teardown(() => socket.close())
  return [socket, heard]
}

const sinkTo = (t: Test, port: number, host = testHost) => {
  const troubles: string[] = []
  const lost = { lines: 0 }
  const sink = new SyslogSink(host, port, systemClock, why => void troubles.push(why))
  t.teardown(() => sink.end(0).catch(() => {}))
  const count = (lines: number): void => void (lost.lines += lines)
  const write = (text: string) => sink.write(text, text.split('\n').length - 1, count)
  return { sink, troubles, lost, write }
}

t.test('a datagram for each line, as syslog servers take them', async t => {
  const [socket, heard] = await server(t)
  const { write, troubles } = sinkTo(t, socket.address().port)
  write('one\ntwo\n')
  write('three\n')
  await until('all three', () => heard.length === 3)
  const start = String.raw`^<134>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d usher\[${process.pid}\]: `
  for (const [i, word] of ['one', 'two', 'three'].entries())
    t.match(heard[i], new RegExp(`${start}${word}$`))
  t.strictSame(troubles, [])
})

t.test('thousands at once, and an end with some that wait', async t => {
  const [socket, heard] = await server(t)
  socket.setRecvBufferSize(1 << 22)
  const { write, sink, lost } = sinkTo(t, socket.address().port)
  write('line\n'.repeat(300))
  await sink.end(2000)
  await until('all are heard', () => heard.length === 300)
  t.equal(lost.lines, 0)
  write('after\n')
  t.equal(lost.lines, 1)
})

t.test('nobody listens: it is said, and counted', async t => {
  const port = await freeUdpPort()
  const { write, troubles, lost } = sinkTo(t, port)
  await until('it is noticed', async () => {
    write('line\n')
    await new Promise(resolve => setTimeout(resolve, 10))
    return troubles.length > 0
  })
  t.equal(troubles[0], 'no process listens there')
  t.ok(lost.lines > 0)
  const [, heard] = await server(t, port)
  await until('then somebody does', async () => {
    write('line\n')
    await new Promise(resolve => setTimeout(resolve, 10))
    return heard.length > 0
  })
})

t.test('no way there: it is said, counted and tried again', async t => {
  // The kernel refuses to connect to it, as it does where there is no route.
  const { write, troubles, lost } = sinkTo(t, 514, '255.255.255.255')
  write('one\ntwo\n')
  await until('they are lost', () => lost.lines === 2)
  t.match(troubles, [/EACCES/])
  write('three\n')
  await until('and so is what comes later', () => lost.lines === 3)
  t.equal(troubles.length, 1)
})
