import { routeShape } from '../../../src/source/routes/route-fields.ts'
import { checkObjects, checkTexts, form as checkForm } from './bad-checks.ts'
import { badYaml } from './bad-yaml.ts'
import { badEntries, form, listens, options, targets } from './bad-values.ts'

/** A file, and each of its faults: its line, its field, and how the message goes on. */
type BadFile = readonly [
  text: string,
  ...faults: readonly (readonly [line: number, field: string, message: string])[],
]

/** Values of the wrong kind, as YAML has them and as they are shown. */
const kinds: readonly (readonly [yaml: string, shown: string])[] = [
  ['7', '7'],
  ['1.5', '1.5'],
  ['null', 'null'],
  ['', 'null'],
  ['{a: 1}', 'an object'],
]
const plainKinds = [...kinds, ['[a]', 'a list'], ['true', 'true']] as const

/** A route of four lines, with `line` in place of one of them. */
const withField = (name: string, value: string): string =>
  name === 'listen'
    ? `routes:\n  - listen: ${value}\n    endpoints: [a:1]\n`
    : name === 'endpoints' || name === 'tiers'
      ? `routes:\n  - listen: tcp://127.0.0.1:1\n    ${name}: ${value}\n`
      : `routes:\n  - listen: ${name.startsWith('socket') ? 'unix:/a' : 'tcp://127.0.0.1:1'}\n    endpoints: [a:1]\n    ${name}: ${value}\n`

const lineOf = (name: string): number =>
  name === 'listen' ? 2 : name === 'endpoints' || name === 'tiers' ? 3 : 4

const at = (name: string) => `routes[0].${name}`

/** Of a name that is like none. */
const unknownField = `is unknown; give ${Object.keys(routeShape.entries)
  .join(', ')
  .replace(/, (\w+)$/, ' or $1')}`

const ofKind = (name: string, right: string): BadFile[] =>
  plainKinds
    .filter(([yaml]) => !(name === 'retryEarlyClose' && yaml === 'true'))
    .filter(([yaml]) => !(name === 'replay' && yaml === '7'))
    .filter(
      ([yaml]) => !(['listen', 'endpoints', 'tiers'].includes(name) && yaml === '[a]'),
    )
    .map(([yaml, shown]) => [
      withField(name, yaml),
      [lineOf(name), at(name), `${shown} ${right}`],
    ])

const sound = 'listen: tcp://127.0.0.1:1, endpoints: [a:1]'

/** Field names that are not there, with what is suggested. */
const strangers: readonly (readonly [name: string, message: string])[] = [
  ['nmae', 'is unknown; did you mean name?'],
  ['Name', 'is unknown; did you mean name?'],
  ['afinity', 'is unknown; did you mean affinity?'],
  ['retry-early-close', 'is unknown; did you mean retryEarlyClose?'],
  ['retry_early_close', 'is unknown; did you mean retryEarlyClose?'],
  ['retryearlyclose', 'is unknown; did you mean retryEarlyClose?'],
  ['maxconn', 'is unknown; did you mean maxConnections?'],
  ['send-proxy', 'is unknown; did you mean proxyProtocol?'],
  ['bind', 'is unknown; did you mean listen?'],
  ['timeout client', 'is unknown; did you mean idleTimeout?'],
  ['REPLAY', 'is unknown; did you mean replay?'],
  ['replays', 'is unknown; did you mean replay?'],
  ['tier', 'is unknown; did you mean tiers?'],
  ['listens', 'is unknown; did you mean listen?'],
  ['endpoint', 'is unknown; did you mean endpoints?'],
  ['colour', unknownField],
  ['__proto__', unknownField],
  ['constructor', unknownField],
]

const fieldOf = (name: string): string =>
  /^\w+$/.test(name) ? `routes[0].${name}` : `routes[0]["${name}"]`

const empty =
  'the file is empty; give routes: [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]'

const taken = (listen: string, by: string): string =>
  `${listen} is taken by route "${by}"; give each route an address or port of its own`

const aliases = (number: number): string =>
  `routes:\n  - ${sound.replace('[a:1]', '&a [a:1]').replace(/^(.*)$/, '{$1}')}\nx: [${'*a, '.repeat(number)}]\n`

/** Faults of the whole. */
const whole: readonly BadFile[] = [
  ['', [0, '', empty]],
  ['\n\n', [0, '', empty]],
  ['# nothing\n', [0, '', empty]],
  ['---\n', [0, '', empty]],
  ['null\n', [0, '', empty]],
  ['7\n', [1, '', `7 ${form.file}`]],
  ['routes\n', [1, '', `"routes" ${form.file}`]],
  ['true\n', [1, '', `true ${form.file}`]],
  [`- {${sound}}\n`, [1, '', `a list ${form.file}`]],
  ['[]\n', [1, '', `a list ${form.file}`]],
  [
    '{}\n',
    [
      1,
      'routes',
      'is missing; give a list of routes, like [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]',
    ],
  ],
  [
    'apiVersion: v1\nkind: Service\nmetadata: {name: web}\n',
    [
      1,
      'apiVersion',
      'belongs in a manifest, not in a file of routes; give it to usher run --manifests',
    ],
  ],
  ['\nroutes: 7\n', [2, 'routes', `7 ${form.routes}`]],
  ['routes:\n', [1, 'routes', `null ${form.routes}`]],
  ['routes: db\n', [1, 'routes', `"db" ${form.routes}`]],
  [`routes: {${sound}}\n`, [1, 'routes', `an object ${form.routes}`]],
  [
    'routes: []\n',
    [
      1,
      'routes',
      'is empty; give a list of routes, like [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]',
    ],
  ],
  [
    `routes:\n  - {${sound}}\nroute: 7\n`,
    [3, 'route', 'is unknown; did you mean routes?'],
  ],
  [`version: 1\nroutes:\n  - {${sound}}\n`, [1, 'version', 'is unknown; give routes']],
  [
    `Routes:\n  - {${sound}}\n`,
    [1, 'routes', 'is missing; give a list of routes'],
    [1, 'Routes', 'is unknown; did you mean routes?'],
  ],
  [
    `{"routes": [{"listen": "tcp://127.0.0.1:1",\n"endpoints": ["a"]}]}`,
    [2, 'routes[0].endpoints[0]', `"a" ${form.target}`],
  ],
  // What is no YAML.
  ['routes: [\n', [2, '', 'Flow sequence in block collection must be sufficiently ind']],
  ['\troutes: []\n', [1, '', 'Tabs are not allowed as indentation']],
  ['routes: "\n', [2, '', 'Missing closing "quote']],
  ['routes: @x\n', [1, '', 'Plain value cannot start with reserved character @']],
  [
    'routes: []\n - x\n',
    [2, '', 'A block sequence may not be used as an implicit map key'],
    [2, '', 'Implicit keys need to be on a single line'],
    [2, '', 'Implicit map keys need to be followed by map values'],
  ],
  [
    `routes:\n  - {${sound}}\nroutes: []\n`,
    [3, '', 'the key "routes" is given twice; give it once'],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: [a:1]\n    endpoints: [b:1]\n    listen: tcp://127.0.0.1:2\n',
    [4, '', 'the key "endpoints" is given twice; give it once'],
    [5, '', 'the key "listen" is given twice; give it once'],
  ],
  [
    `routes: [{${sound}}]\n---\nroutes: []\n`,
    [2, '', 'a second document begins; give all routes in one'],
  ],
  // Anchors and aliases.
  [
    'routes: *a\n',
    [1, '', 'the alias *a has no anchor &a before it; write the value out'],
  ],
  [
    'routes: &a\n  - *a\n',
    [2, '', 'the alias *a stands within its own anchor; write the value out'],
  ],
  [aliases(101), [3, '', 'there are more than 100 aliases; write the values out']],
  [
    `a: &a [${'x, '.repeat(20)}]\nb: &b [${'*a, '.repeat(20)}]\nc: &c [${'*b, '.repeat(20)}]\nroutes: [${'*c, '.repeat(20)}]\n`,
    [0, '', 'its aliases stand for too much; write the values out'],
  ],
  [aliases(1001), [0, '', 'has more than 1000 aliases; write the values out']],
  [
    `routes: ${'['.repeat(300)}${']'.repeat(300)}\n`,
    [1, '', 'it is nested too deeply: more than 200 levels'],
  ],
  [
    `x: &x {${sound}, affinity: 1d}\nroutes:\n  - *x\n`,
    // Where it is written, not where it is used.
    [1, 'routes[0].affinity', `"1d" ${form.affinity}`],
    [1, 'x', 'is unknown; give routes'],
  ],
]

/** What one field does not show by itself. */
const together: readonly BadFile[] = [
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n',
    [2, 'routes[0].endpoints', form.noEndpoints],
  ],
  ['routes:\n  - endpoints: [a:1]\n', [2, 'routes[0].listen', form.noListen]],
  [
    'routes:\n  - name: x\n',
    [2, 'routes[0].listen', form.noListen],
    [2, 'routes[0].endpoints', form.noEndpoints],
  ],
  [
    'routes:\n  - {}\n',
    [2, 'routes[0].listen', form.noListen],
    [2, 'routes[0].endpoints', form.noEndpoints],
  ],
  [
    withField('endpoints', '[a:1]\n    tiers: [[b:1]]'),
    [4, 'routes[0].tiers', 'conflicts with endpoints; leave one out'],
  ],
  [withField('endpoints', '[]'), [3, 'routes[0].endpoints', form.noTargets]],
  [
    withField('tiers', '[]'),
    [
      3,
      'routes[0].tiers',
      'is empty; give one list or more, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
    ],
  ],
  [withField('tiers', '[[a:1], []]'), [3, 'routes[0].tiers[1]', form.noTargets]],
  [withField('tiers', '[a:1]'), [3, 'routes[0].tiers[0]', `"a:1" ${form.targets}`]],
  [
    withField('tiers', '\n      - [a:1]\n      - [b:1, c]'),
    [5, 'routes[0].tiers[1][1]', `"c" ${form.target}`],
  ],
  [withField('endpoints', '[7]'), [3, 'routes[0].endpoints[0]', `7 ${form.target}`]],
  [
    withField('endpoints', '[[a:1]]'),
    [3, 'routes[0].endpoints[0]', `a list ${form.target}`],
  ],
  [
    withField('endpoints', '[a: 1]'),
    [3, 'routes[0].endpoints[0]', `an object ${form.target}`],
  ],
  [
    withField('endpoints', '[a:1, null]'),
    [3, 'routes[0].endpoints[1]', `null ${form.target}`],
  ],
  [
    withField('endpoints', '[a:1, A:1]'),
    [3, 'routes[0].endpoints[1]', '"a:1" is given twice; give it once'],
  ],
  [
    withField('tiers', '\n      - [a:1]\n      - [a:1]'),
    [5, 'routes[0].tiers[1][0]', '"a:1" is given twice; give it once'],
  ],
  [
    withField('endpoints', '[127.0.0.1:1]'),
    [3, 'routes[0].endpoints[0]', '"127.0.0.1:1" is the route itself; give another port'],
  ],
  [
    withField('tiers', '[[a:1], [127.0.0.1:1]]'),
    [3, 'routes[0].tiers[1][0]', '"127.0.0.1:1" is the route itself; give another port'],
  ],
  [
    'routes:\n  - listen: tcp://0.0.0.0:1\n    endpoints: [127.0.0.9:1]\n',
    [3, 'routes[0].endpoints[0]', '"127.0.0.9:1" is the route itself; give another port'],
  ],
  [
    'routes:\n  - listen: udp://127.0.0.1:1\n    endpoints: [a:1]\n    retryEarlyClose: true\n',
    [4, 'routes[0].retryEarlyClose', form.tcpOnly],
  ],
  [
    'routes:\n  - listen: udp://127.0.0.1:1\n    endpoints: [a:1]\n    retryEarlyClose: false\n    replay: 0\n',
    [4, 'routes[0].retryEarlyClose', form.tcpOnly],
    [5, 'routes[0].replay', form.tcpOnly],
  ],
  [
    withField('retryEarlyClose', 'false\n    replay: 1k'),
    [
      5,
      'routes[0].replay',
      'does nothing where retryEarlyClose is off; leave it out, or switch that on',
    ],
  ],
  [withField('replay', '65537'), [4, 'routes[0].replay', `65537 ${form.replay}`]],
  [withField('replay', '-1'), [4, 'routes[0].replay', `-1 ${form.replay}`]],
  [withField('affinity', '10800'), [4, 'routes[0].affinity', `10800 ${form.affinity}`]],
  [
    withField('retryEarlyClose', 'off'),
    [4, 'routes[0].retryEarlyClose', `"off" ${form.onOff}`],
  ],
  [
    withField('retryEarlyClose', 'on'),
    [4, 'routes[0].retryEarlyClose', `"on" ${form.onOff}`],
  ],
  [
    `routes:\n  - {${sound}}\n  - {${sound}}\n`,
    [3, 'routes[1].listen', taken('tcp://127.0.0.1:1', 'tcp://127.0.0.1:1')],
  ],
  [
    `routes:\n  - {name: db, ${sound}}\n  - {${sound.replace('tcp', 'TCP')}}\n  - {${sound}}\n`,
    [3, 'routes[1].listen', taken('tcp://127.0.0.1:1', 'db')],
    [4, 'routes[2].listen', taken('tcp://127.0.0.1:1', 'db')],
  ],
  [
    'routes:\n  - {listen: "udp://[::1]:53", endpoints: [a:1]}\n  - {listen: "udp://[0::1]:53", endpoints: [b:1]}\n',
    [3, 'routes[1].listen', taken('udp://[::1]:53', 'udp://[::1]:53')],
  ],
  [
    'routes:\n  - listen:\n      - tcp://[::]:1\n      - udp://0.0.0.0:1\n      - a\n      - tcp://[0::0]:1\n    endpoints: [a:1]\n',
    [
      4,
      'routes[0].listen[1]',
      'is UDP, but the first address is TCP; give each protocol a route of its own',
    ],
    [5, 'routes[0].listen[2]', `"a" ${form.listen}`],
  ],
  [
    'routes:\n  - {listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n  - {listen: ["tcp://[::1]:1", tcp://127.0.0.1:1], endpoints: [b:1]}\n  - {listen: [], endpoints: [b:1]}\n',
    [3, 'routes[1].listen', taken('tcp://127.0.0.1:1', 'tcp://127.0.0.1:1')],
    [
      4,
      'routes[2].listen',
      'is empty; give one address or more, like [tcp://[::]:15432]',
    ],
  ],
  [
    'routes:\n  - {listen: ["tcp://[::]:1", "tcp://[0::0]:1"], endpoints: [b:1]}\n',
    [2, 'routes[0].listen', 'tcp://[::]:1 is given twice; give it once'],
  ],
  [
    'routes:\n  - {listen: [tcp://127.0.0.1:1, tcp://0.0.0.0:1, "tcp://[::]:1"], endpoints: [b:1]}\n  - {listen: "tcp://[::1]:1", endpoints: [b:1]}\n  - {listen: "udp://[::1]:1", endpoints: [b:1]}\n',
    [
      2,
      'routes[0].listen',
      'tcp://0.0.0.0:1 is taken by tcp://127.0.0.1:1: one of them is all addresses; leave one out',
    ],
    [
      3,
      'routes[1].listen',
      taken('tcp://[::1]:1', 'tcp://127.0.0.1:1,tcp://0.0.0.0:1,tcp://[::]:1'),
    ],
  ],
  [
    'routes:\n  - {name: x, listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n  - name: x\n    listen: tcp://127.0.0.1:2\n    endpoints: [a:1]\n',
    [
      3,
      'routes[1].name',
      '"x" is the name of another route; give each route its own name',
    ],
  ],
  [
    'routes:\n  - {name: tcp-127-0-0-1-2, listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n  - listen: tcp://127.0.0.1:2\n    endpoints: [a:1]\n',
    [
      3,
      'routes[1].name',
      '"tcp-127-0-0-1-2" is the name of another route; give each route its own name',
    ],
  ],
  [
    `routes:\n  - {${sound}}\n  - 7\n  - listen: x\n    endpoints: [b]\n    affinity: 1d\n    nmae: y\n`,
    [3, 'routes[1]', `7 ${form.route}`],
    [4, 'routes[2].listen', `"x" ${form.listen}`],
    [5, 'routes[2].endpoints[0]', `"b" ${form.target}`],
    [6, 'routes[2].affinity', `"1d" ${form.affinity}`],
    [7, 'routes[2].nmae', 'is unknown; did you mean name?'],
  ],
  ...['0', '-1', '1.5', '65537', '.inf', '.nan'].map((yaml): BadFile => [
    withField('mostHeld', yaml),
    [
      4,
      'routes[0].mostHeld',
      `${yaml.replace('.inf', 'Infinity').replace('.nan', 'NaN')} ${form.mostHeld}`,
    ],
  ]),
  [
    'routes:\n  - listen: udp://127.0.0.1:1\n    endpoints: [a:1]\n    hold: 30s\n    mostHeld: 4\n    answerWithin: 2s\n    proxyProtocol: v2\n',
    [4, 'routes[0].hold', form.tcpOnly],
    [5, 'routes[0].mostHeld', form.tcpOnly],
    [6, 'routes[0].answerWithin', form.tcpOnly],
    [7, 'routes[0].proxyProtocol', form.tcpOnly],
  ],
  [
    'routes:\n  - listen: unix:/run/a\n    endpoints: [a:1]\n    affinity: 3h\n    allow: [10.0.0.0/8]\n    maxClientRate: 5\n    balance: maglev\n    acceptProxy: [10.0.0.0/8]\n',
    [4, 'routes[0].affinity', form.byAddress],
    [5, 'routes[0].allow', form.byAddress],
    [6, 'routes[0].maxClientRate', form.byAddress],
    [7, 'routes[0].balance', form.byAddress],
    [8, 'routes[0].acceptProxy', form.byAddress],
  ],
  ...['tcp://127.0.0.1:1', 'unix:@a'].map((listen): BadFile => [
    `routes:\n  - listen: ${listen}\n    endpoints: [a:1]\n    socketMode: '600'\n    socketOwner: '1:1'\n`,
    [4, 'routes[0].socketMode', form.pathOnly],
    [5, 'routes[0].socketOwner', form.pathOnly],
  ]),
  [
    withField('socketMode', '0660'),
    [4, 'routes[0].socketMode', `660 ${form.socketMode}`],
  ],
  [
    'routes:\n  - listen: udp://127.0.0.1:1\n    endpoints: [a:1, "unix:/run/a weight=2"]\n',
    [
      3,
      'routes[0].endpoints[1]',
      '"unix:/run/a" is for TCP; give an address and a port, or listen on tcp://',
    ],
  ],
  [
    'routes:\n  - listen: tcp://127.0.0.1:1\n    endpoints: [a:1, unix:/run/a]\n    check: http://:8008/primary\n',
    [
      4,
      'routes[0].check',
      'needs a port, which "unix:/run/a" does not have; give a check without a port',
    ],
  ],
  [
    'routes:\n  - listen: unix:/run/a\n    endpoints: [unix:///run/a, unix:/run/b, unix:/run/b]\n    socketMode: "600"\n',
    [3, 'routes[0].endpoints[0]', '"unix:/run/a" is the route itself; give another port'],
    [3, 'routes[0].endpoints[2]', '"unix:/run/b" is given twice; give it once'],
  ],
  [
    'routes:\n  - {listen: unix:/run/a, endpoints: [a:1]}\n  - {listen: unix:///run/a, endpoints: [b:1], socketMode: "600", name: b}\n',
    [3, 'routes[1].listen', taken('unix:/run/a', 'unix:/run/a')],
  ],
  [
    withField('slowStart', '30s\n    balance: maglev'),
    [4, 'routes[0].slowStart', 'does nothing with maglev'],
  ],
  [
    withField('onDown', 'reset'),
    [4, 'routes[0].onDown', 'does nothing without check; give that as well'],
  ],
  ...['rest', 'Reset', ''].map((text): BadFile => [
    withField('check', `tcp\n    onDown: "${text}"`),
    [5, 'routes[0].onDown', `"${text}" ${checkForm.onDown}`],
  ]),
  ...plainKinds.map(([yaml, shown]): BadFile => [
    withField('check', `tcp\n    onDown: ${yaml}`),
    [5, 'routes[0].onDown', `${shown} ${checkForm.onDown}`],
  ]),
  [
    withField('check', '\n      type: http\n      port: 1\n      port: 2'),
    [7, '', 'the key "port" is given twice; give it once'],
  ],
  [
    withField(
      'check',
      '\n      type: http\n      interval: 1\n      fall: x\n      path: y',
    ),
    [6, 'routes[0].check.interval', `1 ${checkForm.time}`],
    [7, 'routes[0].check.fall', `"x" ${checkForm.times}`],
    [8, 'routes[0].check.path', `path "y" ${checkForm.path}`],
  ],
  ...plainKinds
    .filter(([, shown]) => shown !== 'an object')
    .map(([yaml, shown]): BadFile => [
      `routes:\n  - {${sound}}\n  - ${yaml}\n`,
      [3, 'routes[1]', `${shown} ${form.route}`],
    ]),
]

export const badFiles: readonly BadFile[] = [
  ...whole,
  ...badYaml,
  ...together,
  ...listens.map(([text, message]): BadFile => [
    withField('listen', JSON.stringify(text)),
    [2, 'routes[0].listen', message],
  ]),
  ...targets.map(([text, message]): BadFile => [
    withField('endpoints', `\n      - b:1\n      - ${JSON.stringify(text)}`),
    [5, 'routes[0].endpoints[1]', message],
  ]),
  ...options.map(([name, , value, message]): BadFile => [
    withField(name, JSON.stringify(value)),
    [4, at(name), message],
  ]),
  ...checkTexts.map(([text, message]): BadFile => [
    withField('check', JSON.stringify(text)),
    [4, at('check'), message],
  ]),
  ...checkObjects.map(([yaml, field, message]): BadFile => [
    withField('check', yaml),
    [4, at(field.startsWith('[') ? `check${field}` : `check.${field}`), message],
  ]),
  ...ofKind('check', checkForm.check).filter(([text]) => !text.includes('{a: 1}')),
  ...ofKind('hold', form.hold),
  ...ofKind('answerWithin', form.answerWithin),
  [
    'routes:\n  - listen: udp://127.0.0.1:1\n    endpoints: [a:1]\n    udpSpread: 2\n    affinity: 3h\n    balance: maglev\n    idleTimeout: 1h\n',
    [
      4,
      'routes[0].udpSpread',
      'does nothing with affinity or maglev, which give each client its endpoint; leave it out',
    ],
    [7, 'routes[0].idleTimeout', form.tcpOnly],
  ],
  [
    withField('udpSpread', '0'),
    [
      4,
      'routes[0].udpSpread',
      '0 is not a number of datagrams from 1 to 1000000, like 1',
    ],
    [4, 'routes[0].udpSpread', 'is for UDP; leave it out, or listen on udp://'],
  ],
  ...ofKind('idleTimeout', `${form.age}1h`),
  ...badEntries.map((text): BadFile => [
    withField('deny', JSON.stringify(['10.0.0.0/8', text])),
    [4, at('deny[1]'), `${JSON.stringify(text)} ${form.entry}`],
  ]),
  [
    withField('allow', '[]'),
    [4, at('allow'), 'is empty; give one address or more, like [10.0.0.0/8]'],
  ],
  ...ofKind('allow', 'is not a list of addresses and CIDRs, like [10.0.0.0/8]').filter(
    ([text]) => !text.includes('[a]'),
  ),
  ...['0', '-1', '1.5', '1000001'].flatMap((number): BadFile[] => [
    [
      withField('maxRouteConnections', number),
      [4, at('maxRouteConnections'), `${number} ${form.limit}1000`],
    ],
    [
      withField('maxClientRate', number),
      [4, at('maxClientRate'), `${number} ${form.rate}10`],
    ],
  ]),
  [
    withField('acceptProxy', '[]'),
    [4, at('acceptProxy'), 'is empty; give one address or more, like [10.0.0.0/8]'],
  ],
  [
    withField('acceptProxy', '[10.0.0.0/8, file:/etc/x]'),
    [4, at('acceptProxy[1]'), `"file:/etc/x" ${form.block}`],
  ],
  ...ofKind(
    'acceptProxy',
    'is not a list of addresses and CIDRs, like [10.0.0.0/8]',
  ).filter(([text]) => !text.includes('[a]')),
  [
    withField('serverNames', '[{endpoints: [b:1]}]'),
    [4, at('serverNames[0]'), 'has neither names nor alpn; give one of them'],
  ],
  [
    withField('serverNames', '[{names: [a_b, "*.*.x"], endpoints: [b:1, b:1]}]'),
    [4, at('serverNames[0].names[0]'), '"a_b" is not a host name, like db.example'],
    [4, at('serverNames[0].names[1]'), '"*.*.x" is not a host name, like db.example'],
    [4, at('serverNames[0].endpoints[1]'), '"b:1" is given twice; give it once'],
  ],
  [
    withField('serverNames', '[{names: [a.b]}]'),
    [4, at('serverNames[0].endpoints'), 'is missing; give a list like [10.0.0.5:443]'],
  ],
  ...ofKind('lifetime', `${form.age}24h`),
  ...ofKind('mostHeld', form.mostHeld).filter(([text]) => !text.endsWith(': 7\n')),
  ...ofKind('listen', form.listen),
  ...ofKind('endpoints', form.targets),
  ...ofKind('tiers', form.tiers),
  ...ofKind('name', form.name),
  ...ofKind('affinity', form.affinity),
  ...ofKind('replay', form.replay),
  ...ofKind('retryEarlyClose', form.onOff),
  ...strangers.map(([name, message]): BadFile => [
    withField(JSON.stringify(name), '7'),
    [4, fieldOf(name), message],
  ]),
]
