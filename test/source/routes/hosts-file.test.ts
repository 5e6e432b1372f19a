import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { HostsFile, parseHosts } from '../../../src/source/routes/own-resolver.ts'

t.test('names of all lines are known, whatever their case', async t => {
  const text = [
    '# 10.0.0.9 commented',
    '127.0.0.1\tlocalhost  Alias # 10.0.0.9 not',
    '::1 localhost ip6-localhost',
    '  10.0.0.1   db.Example.  db\r',
    '10.0.0.2 db',
    '10.0.0.2 db',
    '0:0::5 db',
    'fe80::1%lo0 zone',
    '127.1 short',
    '010.0.0.1 octal',
    'no-address name',
    '10.0.0.3',
    '10.0.0.4 a\u0000b \u00e9',
    '',
  ]
  t.strictSame(Object.fromEntries(parseHosts(text.join('\n'))), {
    localhost: ['127.0.0.1', '::1'],
    alias: ['127.0.0.1'],
    'ip6-localhost': ['::1'],
    'db.example': ['10.0.0.1'],
    db: ['10.0.0.1', '10.0.0.2', '::5'],
    'a\u0000b': ['10.0.0.4'],
    é: ['10.0.0.4'],
  })
})

t.test('a file is read again when it was written, replaced, removed', async t => {
  const directory = t.testdir({ hosts: '10.0.0.1 db' })
  const path = join(directory, 'hosts')
  const file = new HostsFile(path)
  t.strictSame(await file.addressesOf('DB.'), ['10.0.0.1'])
  t.strictSame(await file.addressesOf('constructor'), [])
  await writeFile(path, '10.0.0.22 db')
  t.strictSame(await file.addressesOf('db'), ['10.0.0.22'])
  await writeFile(join(directory, 'new'), '10.0.0.33 db')
  await rename(join(directory, 'new'), path)
  t.strictSame(await file.addressesOf('db'), ['10.0.0.33'])
  await rm(path)
  t.strictSame(await file.addressesOf('db'), [])
  await writeFile(path, '10.0.0.33 db')
  t.strictSame(await file.addressesOf('db'), ['10.0.0.33'])
})

t.test('one that cannot be read is a failure, and read as soon as it can be', async t => {
  const directory = t.testdir({ hosts: {} })
  const path = join(directory, 'hosts')
  const file = new HostsFile(path)
  await t.rejects(file.addressesOf('db'), { message: /^cannot read .*hosts: EISDIR/ })
  await rm(path, { recursive: true })
  await writeFile(path, '10.0.0.1 db')
  t.strictSame(await file.addressesOf('db'), ['10.0.0.1'])
})
