import t from 'tap'
import * as v from 'valibot'
import { queryRequest } from '../../src/proxy/control/carry-out.ts'

const fields = {
  routes: v.optional(v.pipe(v.array(v.string()), v.minLength(1))),
  failed: v.optional(v.boolean(), false),
  most: v.optional(v.number()),
  after: v.optional(v.string()),
}

t.test('a query as a request', async t => {
  const cases: [query: string, request: object][] = [
    ['', {}],
    ['routes=default/web', { routes: ['default/web'] }],
    ['routes=a&routes=b%3Ahttp&after=1-x', { routes: ['a', 'b:http'], after: '1-x' }],
    ['failed', { failed: true }],
    ['failed=true', { failed: true }],
    ['failed=false&most=5', { failed: false, most: 5 }],
  ]
  for (const [query, request] of cases) t.strictSame(queryRequest(fields, query), request)
})

t.test('what its schema is to refuse stays as wrong as it was', async t => {
  const schema = v.strictObject(fields)
  const wrong = [
    'failed=maybe',
    'failed&failed',
    'most=',
    'most=many',
    'most=0x10',
    'most=1e3',
    'most=%201',
    'most=-1',
    'after=1&after=2',
    'other=1',
    '__proto__=1',
  ]
  for (const query of wrong)
    t.notOk(v.safeParse(schema, queryRequest(fields, query)).success, query)
})
