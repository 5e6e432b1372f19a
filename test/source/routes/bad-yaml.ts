import { form } from './bad-values.ts'

/** What people write that YAML reads in another way, or not at all; as in bad-files.ts. */
export const badYaml: readonly (readonly [
  text: string,
  ...faults: readonly (readonly [line: number, field: string, message: string])[],
])[] = [
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n\tendpoints: [a:1]\n',
    [3, '', 'Tabs are not allowed as indentation; use spaces'],
  ],
  [
    'routes:\n  -\tlisten: x\n',
    [2, '', 'Tabs are not allowed as indentation; use spaces'],
  ],
  [
    'routes:\r\n  - listen: tcp://127.0.0.1:1\r\n    endpoints: [a]\r\n',
    [3, 'routes[0].endpoints[0]', `"a" ${form.target}`],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: [fd00::10]:53\n',
    [3, '', 'Unexpected scalar at node end; put text with brackets in it in quotes'],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: [[fd00::10]:53]\n',
    [3, 'routes[0].endpoints[0]', `an object ${form.target}`],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: a:1, b:1\n',
    [3, 'routes[0].endpoints', `"a:1, b:1" ${form.targets}`],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints:\n    - a:1\n     - b:1\n',
    [4, 'routes[0].endpoints[0]', `"a:1 - b:1" ${form.target}`],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n   endpoints: [a:1]\n',
    [3, '', 'Sequence item without - indicator'],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n  endpoints: [a:1]\n',
    [3, '', 'All mapping items must start at the same column'],
  ],
  [
    'routes:\n  listen: tcp://127.0.0.1:1\n  endpoints: [a:1]\n',
    [1, 'routes', `an object ${form.routes}`],
  ],
  ['- routes:\n', [1, '', `a list ${form.file}`]],
  ['routes: !foo []\n', [1, '', 'Unresolved tag: !foo; leave it out']],
  ['%YAML 3.0\n---\nroutes: []\n', [1, '', 'Unsupported YAML version 3.0; leave it out']],
  [
    'routes:\n  - !x {listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n',
    [2, '', 'Unresolved tag: !x; leave it out'],
  ],
  ['routes:\n  ? [a]\n  : b\n', [1, 'routes', `an object ${form.routes}`]],
  ['routes: |\n  - a\n', [1, 'routes', String.raw`"- a\u000a" ${form.routes}`]],
  ['routes: >\n', [1, 'routes', `"" ${form.routes}`]],
  ['routes: {{ values }}\n', [1, 'routes', `an object ${form.routes}`]],
  ["routes:\n  - listen: 'tcp://127.0.0.1:1\n", [3, '', "Missing closing 'quote"]],
  ['routes = []\n', [1, '', `"routes = []" ${form.file}`]],
  ['<routes/>\n', [1, '', `"<routes/>" ${form.file}`]],
  [
    '{"routes": [}\n',
    [1, '', 'Flow sequence in block collection must be sufficiently indented and end'],
    [1, '', 'Flow map must end with a }'],
  ],
  ['...\nroutes: []\n', [2, '', 'a second document begins; give all routes in one']],
  [
    'x: &x\nroutes: *x\n',
    [1, 'x', 'is unknown; give routes'],
    [2, 'routes', `null ${form.routes}`],
  ],
  [
    'routes:\n  - &r\n    listen: tcp://127.0.0.1:1\n    endpoints: [a:1]\n  - *r\n',
    [3, 'routes[1].listen', 'tcp://127.0.0.1:1 is taken by route'],
  ],
  [
    'routes:\n  - &r {listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n  - {<<: *r, listen: x}\n',
    [3, 'routes[1].listen', `"x" ${form.listen}`],
  ],
  [
    'routes:\n- a\n- - b\n',
    [2, 'routes[0]', `"a" ${form.route}`],
    [3, 'routes[1]', `a list ${form.route}`],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1 # x\n    еndpoints: [a:1]\n', // Its е is Cyrillic.
    [2, 'routes[0].endpoints', form.noEndpoints],
    [3, String.raw`routes[0]["\u0435ndpoints"]`, 'is unknown; did you mean endpoints?'],
  ],
  ...(
    [
      ['["a:1 "]', `"a:1 " ${form.target}`],
      ['[a:0x10]', `"a:0x10" ${form.target}`],
      ['[a:0o17]', `"a:0o17" ${form.target}`],
      ['["a:٣"]', String.raw`"a:\u0663" ${form.target}`],
      ['[а:1]', String.raw`"\u0430:1" ${form.host}`],
      ['["a\u200b:1"]', String.raw`"a\u200b:1" ${form.host}`],
      [String.raw`["a\0:1"]`, String.raw`"a\u0000:1" ${form.host}`],
      ['[12:30]', `"12:30" ${form.host}`],
      ['["srv:10.0.0.1"]', '"srv:10.0.0.1" is not srv:NAME'],
      ['["srv:_pg._tcp.x:5432"]', '"srv:_pg._tcp.x:5432" is not srv:NAME'],
    ] as const
  ).map(
    ([yaml, message]) =>
      [
        `routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: ${yaml}\n`,
        [3, 'routes[0].endpoints[0]', message],
      ] as const,
  ),
  ...(
    [
      ['{a: [a:1]}', '', `an object ${form.tiers}`],
      ['[[[a:1]]]', '[0][0]', `a list ${form.target}`],
      ['[[a:1], b:1]', '[1]', `"b:1" ${form.targets}`],
      ['[[a:1], null]', '[1]', `null ${form.targets}`],
      ['[{a: 1}]', '[0]', `an object ${form.targets}`],
    ] as const
  ).map(
    ([yaml, field, message]) =>
      [
        `routes:\n  - listen: tcp://127.0.0.1:1\n    tiers: ${yaml}\n`,
        [3, `routes[0].tiers${field}`, message],
      ] as const,
  ),
]
