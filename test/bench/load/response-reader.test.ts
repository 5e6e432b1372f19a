import t from 'tap'
import { Queue, Schedule } from '../../../bench/load/fixed-rate.ts'
import { Timings } from '../../../bench/load/load.ts'
import { ResponseReader } from '../../../bench/load/response-reader.ts'

/** Reads texts one after the other, as if each had come in a read of its own. */
const readAll = (...texts: string[]): string[] => {
  const reader = new ResponseReader()
  return texts.map(text => reader.read(Buffer.from(text, 'latin1'), text.length))
}

const head = (...lines: string[]): string => `${lines.join('\r\n')}\r\n\r\n`

const whole: Record<string, string> = {
  'a counted body': `${head('HTTP/1.1 200 OK', 'Content-Length: 5')}hello`,
  'a name in other letters': `${head('HTTP/1.1 404 Not Found', 'content-LENGTH:2', 'X: y')}no`,
  'no body': head('HTTP/1.1 200 OK', 'Content-Length: 0'),
  'a status that has no body': head('HTTP/1.1 204 No Content', 'Date: now'),
  'not modified, with the length of what is not sent': head(
    'HTTP/1.1 304 Not Modified',
    'Content-Length: 500',
  ),
  'chunks with an extension and a trailer':
    head('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked') +
    '5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: yes\r\n\r\n',
  'a blank line in a chunk':
    head('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked') + '4\r\n\r\n\r\n\r\n0\r\n\r\n',
  'a provisional response before': `${head('HTTP/1.1 103 Early Hints', 'Link: x')}${head('HTTP/1.1 200 OK', 'Content-Length: 1')}x`,
  'bare line feeds': 'HTTP/1.1 200 OK\nContent-Length: 3\n\nabc',
}

t.test('a response is whole when it is, and not before, however it is cut', async t => {
  for (const [name, text] of Object.entries(whole)) {
    t.same(readAll(text), ['whole'], name)
    const bytes = text.split('')
    const expected = bytes.map((_, at) => (at === bytes.length - 1 ? 'whole' : 'more'))
    t.same(readAll(...bytes), expected, `${name}, byte by byte`)
    for (let cut = 1; cut < text.length; cut += 1)
      t.same(readAll(text.slice(0, cut), text.slice(cut)), ['more', 'whole'], name)
  }
})

t.test('responses of several kinds follow each other on one connection', async t => {
  const texts = Object.values(whole)
  t.same(
    readAll(...texts, ...texts),
    [...texts, ...texts].map(() => 'whole'),
  )
})

t.test('what is not HTTP, or comes unasked, is wrong', async t => {
  const chunked = head('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked')
  t.same(readAll('SSH-2.0-hello\r\n'), ['wrong'])
  t.same(readAll('\r\n\r\n'), ['wrong'])
  t.same(readAll(`${whole['a counted body']}!`), ['wrong'])
  t.same(readAll(`${chunked}xyz\r\n`), ['wrong'])
  t.same(readAll(`${chunked}1\r\nabc\r\n`), ['wrong'])
  t.same(readAll(`${chunked}ffffffffffffff\r\n`), ['wrong'])
  t.same(
    readAll(
      'HTTP/1.1 200 OK\r\n',
      ...Array.from({ length: 9 }, () => 'x'.repeat(8192)),
    ).at(-1),
    'wrong',
  )
})

t.test('a body without a length ends with its connection', async t => {
  const reader = new ResponseReader()
  const text = Buffer.from(`${head('HTTP/1.0 200 OK')}hello`)
  t.equal(reader.read(text, text.length), 'more')
  t.equal(reader.end(), true)
  t.equal(new ResponseReader().end(), false)
})

t.test('a server that is going to close says so', async t => {
  const closes = (text: string): boolean => {
    const reader = new ResponseReader()
    reader.read(Buffer.from(text), text.length)
    return reader.closes
  }
  const length = 'Content-Length: 0'
  t.equal(closes(head('HTTP/1.1 200 OK', length, 'connection:  Close')), true)
  t.equal(closes(head('HTTP/1.1 200 OK', length, 'Connection: keep-alive')), false)
  t.equal(closes(head('HTTP/1.0 200 OK', length)), true)
  t.equal(closes(head('HTTP/1.1 200 OK', length)), false)
})

t.test('a queue gives back in order, also around its end', async t => {
  const queue = new Queue<number>(3)
  for (const item of [1, 2, 3]) queue.push(item)
  t.throws(() => queue.push(4), /full/)
  t.equal(queue.shift(), 1)
  queue.push(4)
  queue.remove(3)
  t.same([queue.shift(), queue.shift(), queue.shift()], [2, 4, undefined])
})

t.test('a schedule tells what is due, once it has started', async t => {
  const schedule = new Schedule(100)
  t.equal(schedule.dueBy(1e9), 0)
  schedule.startAt(1000)
  t.same(
    [999, 1000, 1009.9, 1010, 1100].map(ms => schedule.dueBy(ms)),
    [0, 1, 1, 2, 11],
  )
  t.equal(schedule.dueAt(10), 1100)
  t.throws(() => new Schedule(0), /a rate of 0\/s/)
})

t.test('percentiles are in milliseconds, none of nothing', async t => {
  const timings = new Timings()
  t.equal(timings.percentiles(), undefined)
  for (let ms = 1; ms <= 1000; ms += 1) timings.record(ms)
  timings.record(0)
  const { p50 = 0, p99 = 0, max = 0, count } = timings.percentiles() ?? {}
  t.ok(Math.abs(p50 - 500) < 2 && Math.abs(p99 - 990) < 3 && Math.abs(max - 1000) < 2)
  t.equal(count, 1001)
})
