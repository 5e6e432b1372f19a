import { execFileSync } from 'node:child_process'
import { constants } from 'node:fs'
import {
  chmod,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FileSink, mostWaitingBytes } from '../../../src/observe/access-log/sink.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { until } from '../../support/until.ts'

const sinkAt = (t: Test, path: string) => {
  const troubles: string[] = []
  const lost = { lines: 0 }
  const sink = new FileSink(path, systemClock, why => void troubles.push(why))
  t.teardown(() => sink.end(0))
  const count = (lines: number): void => void (lost.lines += lines)
  return {
    sink,
    troubles,
    lost,
    write: (text: string) => sink.write(text, text.split('\n').length - 1, count),
  }
}

const contentOf = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => '')

const has = (path: string, content: string) =>
  until(`${path} has it`, async () => (await contentOf(path)) === content)

t.test('lines are appended, and the file is for owner and group', async t => {
  const path = join(t.testdir(), 'db.log')
  const { write, sink, troubles } = sinkAt(t, path)
  write('one\n')
  await has(path, 'one\n')
  t.equal((await stat(path)).mode & 0o777, 0o640)
  write('two\nthree\n')
  await sink.end(1000)
  t.equal(await contentOf(path), 'one\ntwo\nthree\n')
  t.strictSame(troubles, [])
  const again = sinkAt(t, path)
  again.write('four\n')
  await again.sink.end(1000)
  t.equal(await contentOf(path), 'one\ntwo\nthree\nfour\n')
})

t.test('a file that is renamed is left, at a signal or within seconds', async t => {
  const path = join(t.testdir(), 'db.log')
  const { write, sink, lost } = sinkAt(t, path)
  write('one\n')
  await has(path, 'one\n')
  await rename(path, `${path}.1`)
  sink.reopen()
  await until('there is a new one', async () => (await stat(path).catch(() => 0)) !== 0)
  write('two\n')
  await has(path, 'two\n')
  t.equal(await contentOf(`${path}.1`), 'one\n')
  await rename(path, `${path}.2`)
  await until('it looks by itself', async () => (await stat(path).catch(() => 0)) !== 0)
  write('three\n')
  await has(path, 'three\n')
  await rm(path)
  sink.reopen()
  write('four\n')
  await has(path, 'four\n')
  t.equal(lost.lines, 0)
})

t.test('another file that someone has put in its place is written', async t => {
  const path = join(t.testdir(), 'db.log')
  const { write, sink, lost } = sinkAt(t, path)
  write('one\n')
  await has(path, 'one\n')
  await rename(path, `${path}.1`)
  await writeFile(path, 'made by logrotate\n')
  sink.reopen()
  await until('it has looked', async () => {
    write('x\n')
    return (await contentOf(path)).endsWith('x\n')
  })
  t.match(await contentOf(path), /^made by logrotate\nx\n/)
  t.equal(lost.lines, 0)
})

t.test('a file that is copied and truncated has no hole', async t => {
  const path = join(t.testdir(), 'db.log')
  const { write } = sinkAt(t, path)
  write('one\n')
  await has(path, 'one\n')
  await truncate(path, 0)
  write('two\n')
  await has(path, 'two\n')
})

t.test('a directory that comes later', async t => {
  const directory = join(t.testdir(), 'logs')
  const path = join(directory, 'db.log')
  const { write, troubles, lost } = sinkAt(t, path)
  await until('it is said', () => troubles.length === 1)
  t.equal(troubles[0], `there is no directory ${directory}; make it`)
  write('one\n')
  await mkdir(directory)
  await has(path, 'one\n')
  await until('and that is said', () => troubles.length === 2)
  t.strictSame([troubles[1], lost.lines], ['', 0])
})

t.test('what is no file to write to is said in words', async t => {
  const directory = t.testdir({ file: '' })
  for (const [path, why] of [
    [directory, 'it is a directory; give the path of a file'],
    [join(directory, 'file', 'db.log'), `${join(directory, 'file')} is no directory`],
  ] as const) {
    const { troubles } = sinkAt(t, path)
    await until(path, () => troubles.length === 1)
    t.match(troubles[0], why)
  }
  if (process.geteuid?.() === 0) return
  await chmod(directory, 0o500)
  const { troubles } = sinkAt(t, join(directory, 'db.log'))
  await until('not allowed', () => troubles.length === 1)
  t.match(troubles[0], /^user \d+ may not write to it$/)
  await chmod(directory, 0o700)
})

t.test('a full disk: what waits is bounded, and the end is not held up', async t => {
  const { write, sink, troubles, lost } = sinkAt(t, '/dev/full')
  write('one\n')
  await until('it is said', () => troubles.length === 1)
  t.match(troubles[0], /ENOSPC/)
  const line = `${'x'.repeat(1023)}\n`
  const count = mostWaitingBytes / line.length + 100
  for (let i = 0; i < count; i += 1) write(line)
  t.ok(lost.lines >= 100, 'what is beyond the bound is lost at once')
  const before = performance.now()
  await sink.end(200)
  t.ok(performance.now() - before < 5000)
  t.equal(lost.lines, count + 1, 'all is counted')
  write('after\n')
  t.equal(lost.lines, count + 2)
})

t.test('a FIFO', async t => {
  const path = join(t.testdir(), 'fifo')
  execFileSync('mkfifo', [path])
  const { write, sink, troubles, lost } = sinkAt(t, path)
  await until('it has no reader', () => troubles.length === 1)
  t.equal(troubles[0], 'no process reads from it')
  write('one\n')
  const reading = constants.O_RDONLY | constants.O_NONBLOCK
  const reader = await open(path, reading)
  const bytes = Buffer.alloc(1 << 20)
  const read = async (): Promise<string> => {
    const { bytesRead } = await reader
      .read(bytes)
      .catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'EAGAIN') return { bytesRead: 0 }
        throw error
      })
    return bytes.toString('utf8', 0, bytesRead)
  }
  let heard = ''
  await until('it comes', async () => (heard += await read()) === 'one\n')

  // More than a pipe has room for.
  const lines = Array.from({ length: 40_000 }, (_, i) => `line ${i}\n`)
  for (const line of lines) write(line)
  await until('a part waits', async () => {
    await new Promise(resolve => setTimeout(resolve, 100))
    return true
  })
  heard = ''
  await until('all come', async () => {
    heard += await read()
    return heard.length === lines.join('').length
  })
  t.equal(heard, lines.join(''), 'none is torn or out of order')
  t.equal(lost.lines, 0)

  for (const line of lines) write(line)
  heard = ''
  await until('some are heard', async () => (heard += await read()).length > 100)
  await reader.close()
  await until('the reader is missed', () => troubles.at(-1) !== '')
  t.equal(troubles.at(-1), 'no process reads from it')
  const next = await open(path, reading)
  t.teardown(() => next.close())
  heard = ''
  await until('the rest comes', async () => {
    const { bytesRead } = await next.read(bytes).catch(() => ({ bytesRead: 0 }))
    heard += bytes.toString('utf8', 0, bytesRead)
    return heard.endsWith(lines.at(-1) ?? '')
  })
  t.ok(
    heard.split('\n').every(line => line === '' || lines.includes(`${line}\n`)),
    'whole lines only',
  )
  t.ok(lost.lines <= 1, 'of a torn line it is known that it is lost')
  await sink.end(1000)
})
