export interface CommandText {
  /** One line for the list of commands. */
  readonly summary: string
  /** What follows `usher NAME` in its usage line. */
  readonly usage: string
  readonly description: string
  /** Complete command lines, each with what it does. */
  readonly examples: readonly (readonly [line: string, meaning: string])[]
  /** The flags of which it takes one to have something to do, and what to say then. */
  readonly needs?: { readonly oneOf: readonly string[]; readonly message: string }
}

/** Every command, in the order help shows them. */
export const commands = {
  run: {
    summary: 'Proxy the Services of a cluster, or of manifest files.',
    usage: '[--manifests PATH...] [flags]',
    description:
      'Replaces kube-proxy on a node. Watches Services and their endpoints at the API server, or ' +
      'reads them from YAML or JSON files, and load-balances TCP connections and UDP flows ' +
      'across the endpoints: with kernel rules (iptables, nftables or ipvs mode), or in Usher ' +
      "itself (userspace mode). Accepts kube-proxy's flags and configuration file unchanged. A " +
      'change to one Service does not affect connections of the others. SIGHUP rereads everything. ' +
      'SIGTERM or Ctrl-C lets open connections finish; a second one ends Usher at once.',
    examples: [
      ['usher run --kubeconfig /etc/kubernetes/kubeconfig', 'the Services of a cluster'],
      [
        'usher run --config /var/lib/kube-proxy/config.conf',
        'with the configuration of kube-proxy',
      ],
      ['usher run --manifests deploy/examples/demo.yaml', 'the Services of a file'],
    ],
  },
  sidecar: {
    summary: 'Proxy a few fixed routes, such as one to a database.',
    usage: '[--route ROUTE...] [--config FILE] [flags]',
    description:
      'Listens on an address and load-balances its connections across a list of endpoints. If an ' +
      'endpoint refuses or does not answer, Usher tries another. A route is ' +
      'tcp://LISTEN=ENDPOINT,ENDPOINT or udp://LISTEN=ENDPOINT,ENDPOINT; endpoints may be host ' +
      'names, which are resolved again when their DNS records expire. Routes can also come from a ' +
      'file, which is reloaded when it changes; connections of unchanged routes are not affected. ' +
      'In a pod, Usher starts before the application and ends after it. It exits 0 whenever it ' +
      'was told to end.',
    examples: [
      [
        "usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'",
        'a database with a standby',
      ],
      ['usher sidecar --config deploy/examples/routes.yaml', 'the routes of a file'],
    ],
    needs: {
      oneOf: ['route', 'config'],
      message:
        "no route given; say where to listen and where to go, like usher sidecar --route 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432', or give a file of routes with --config",
    },
  },
  demo: {
    summary: 'Run a demo on this computer, with its own backends.',
    usage: '[flags]',
    description:
      'Starts a few small backends with a proxy in front of them, sends real traffic through it ' +
      'and shows where each connection goes. Needs no privileges, cluster or network. Keeps ' +
      'running for you to try out until Ctrl-C.',
    examples: [
      ['usher demo', 'look around'],
      ['usher demo --once', 'run every step once, check the result, exit 0 or 1'],
    ],
  },
  check: {
    summary: 'Validate files and flags, or test which modes work on this node.',
    usage: '[FILE...] [--route ROUTE...] [flags of run]',
    description:
      'Without files, tests every mode and capture on this node, reports whether each works and ' +
      'why not, and leaves nothing behind but iptables’ empty tables. With files, reads manifests as `usher run` would, or a file ' +
      'of routes as `usher sidecar` would, and lists every problem with its file, document and ' +
      'field; --route validates a route. Also validates the flags of `usher run` and its --config file; if the mode in that ' +
      'file does not work here, that is only a warning, because the file may be for another node. ' +
      'The last lines name the next command to run. Exits 0 if all is well; 1 if there are ' +
      'problems, or if the mode of --proxy-mode or the capture of --capture does not work here; ' +
      '2 on a usage error.',
    examples: [
      ['usher check', 'test this node; run as root'],
      ['usher check deploy/examples/demo.yaml', 'one file'],
      ['usher check deploy/examples/routes.yaml', 'the routes of a sidecar'],
      ['usher check services/ --drain-timeout 1m', 'a directory, and a flag'],
      ['usher check --config config.conf', "kube-proxy's configuration file"],
    ],
  },
  status: {
    summary: 'Show what a running Usher is doing.',
    usage: '[SERVICE...] [flags]',
    description:
      'Queries a running Usher for its Services, their VIPs (the addresses ' +
      'that clients dial), endpoints, connections and errors. With more than 20 ServicePorts, ' +
      'prints only those that are not ok, unless you name some. Exits 0 when Usher answers, ' +
      'whatever its state; 1 if a given name matches nothing; 3 with the reason when no Usher ' +
      'answers.',
    examples: [
      ['usher status', 'the Usher on this host'],
      ['usher status default/web', 'one Service, with its endpoints'],
      ['usher status --json | jq .unhealthy', 'for scripts'],
    ],
  },
  pause: {
    summary: 'Hold new connections of a route, for example during a switchover.',
    usage: 'ROUTE... --control-socket PATH [--reset] [--for DURATION]',
    description:
      'Tells a running Usher, over its control socket, to hold new TCP clients of a route until ' +
      '`usher resume`: none is connected to an endpoint, and what they send is buffered. A held ' +
      "client is reset after the route's hold time, or after 60 s if the route has none. Give a " +
      'route by name; for `usher run` in userspace mode, give a Service as default/db or ' +
      'default/db:port. The pause is lost when Usher ends. Exits 0 when the routes are paused, ' +
      'even if they already were; 1 with the reason when one of them is not; 2 on a usage error; 3 with the reason when no Usher answers.',
    examples: [
      [
        'usher pause db --reset --control-socket /run/usher/control',
        'before a switchover',
      ],
      ['usher pause db --for 2m', 'with USHER_CONTROL_SOCKET set; ends by itself'],
    ],
    needs: {
      oneOf: ['name'],
      message: 'no route given; name one, like usher pause db',
    },
  },
  resume: {
    summary: 'End a pause and connect the held clients.',
    usage: 'ROUTE... --control-socket PATH',
    description:
      'Tells a running Usher, over its control socket, to end the pause of a route. Held clients ' +
      'are connected over the next second. Exits 0 when the routes are not paused, even if they ' +
      'were not before; 1 with the reason when one of them still is; 2 on a usage error; 3 with the reason when no Usher answers.',
    examples: [
      ['usher resume db --control-socket /run/usher/control', 'after a switchover'],
    ],
    needs: {
      oneOf: ['name'],
      message: 'no route given; name one, like usher resume db',
    },
  },
  drain: {
    summary: 'Stop sending new connections to an endpoint.',
    usage: 'ENDPOINT... --control-socket PATH [flags]',
    description:
      'Tells a running Usher, over its control socket, to send an endpoint no new connections or ' +
      'flows, for example before you take it out of service. Other endpoints of its route get ' +
      'them instead. Open connections stay, unless --close resets them. If all endpoints of a ' +
      "route are drained, clients wait for the route's hold time, or are refused. The drain ends " +
      'with `usher undrain`, after --for, when the endpoint leaves its route, or when Usher ends. ' +
      'Exits 0 when the endpoint is drained, even if it already was; 1 with the reason when it is ' +
      'not; 2 on a usage error; 3 with the reason when no Usher answers.',
    examples: [
      [
        'usher drain 10.0.0.5:5432 --control-socket /run/usher/control',
        'in every route that has this endpoint',
      ],
      ['usher drain 10.0.0.5:5432 --route db --close idle --for 1h', 'before an upgrade'],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher drain 10.0.0.5:5432',
    },
  },
  undrain: {
    summary: 'Send new connections to a drained endpoint again.',
    usage: 'ENDPOINT... --control-socket PATH [--route NAME]',
    description:
      'Tells a running Usher, over its control socket, to send new connections to a drained ' +
      'endpoint again. Exits 0 when it is not drained, even if it was not before; 1 with the ' +
      'reason when it still is; 2 on a usage error; 3 with the reason when no Usher answers.',
    examples: [
      [
        'usher undrain 10.0.0.5:5432 --control-socket /run/usher/control',
        'after maintenance',
      ],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher undrain 10.0.0.5:5432',
    },
  },
  weight: {
    summary: 'Change the weight of an endpoint.',
    usage: 'ENDPOINT [N] --control-socket PATH [--route NAME] [--reset]',
    description:
      'Tells a running Usher, over its control socket, to override the weight of an endpoint with ' +
      'N, 0 to 256: weight 2 gets twice the new connections of weight 1. An endpoint with weight ' +
      '0 gets connections only when no other endpoint can be connected to. Without N, the ' +
      'endpoint returns to its configured weight. The override is lost when the endpoint leaves ' +
      'its route and when Usher ends. Exits 0 when the weight is set; 1 with the reason when it ' +
      'is not; 2 on a usage error; 3 with the reason when no Usher answers.',
    examples: [
      ['usher weight 10.0.0.5:5432 10 --route db', 'a tenth of the share of weight 100'],
      ['usher weight 10.0.0.5:5432 --reset', 'back to the configured weight'],
    ],
    needs: {
      oneOf: ['endpoint'],
      message: 'no endpoint given; name one, like usher weight 10.0.0.5:5432 10',
    },
  },
  get: {
    summary: 'List services, endpoints or connections of a running Usher.',
    usage: 'KIND [NAME...] [flags]',
    description:
      'Queries a running Usher on this host for the ports of its Services (or its routes), their ' +
      'endpoints, the addresses that clients dial, or the open TCP connections, and prints one ' +
      'line for each. Lists at most 10,000 connections; a note says how many were left out. Exits 0; 1 if a ' +
      'given name matches nothing or Usher has not read its Services yet; 3 with the reason when ' +
      'no Usher answers.',
    examples: [
      ['usher get services -n default', 'one line per port'],
      [
        'usher get endpoints default/web -o wide',
        'endpoints of one Service, with check results',
      ],
      ['usher get connections -o json | jq .items', 'for scripts'],
      ['usher get endpoints -w', 'and every change from then on'],
    ],
    needs: {
      oneOf: ['kind'],
      message:
        'nothing to list; give services, endpoints, connections, listeners or routes',
    },
  },
  top: {
    summary: 'Watch the busiest Services of a running Usher.',
    usage: '[flags]',
    description:
      'Queries a running Usher on this host every second and shows a table of new connections, ' +
      'failures, retries and bytes per second for each Service port or route. Keys: n, a, f, r, b ' +
      'and s sort (as --sort does; s by name), e switches between Services and endpoints, q ' +
      'quits. Exits 0; with --once, 1 if Usher has not read its Services yet; 3 with the reason ' +
      'when no Usher answers.',
    examples: [
      ['usher top', 'the busiest first, until q'],
      ['usher top --once --sort failed', 'one table, for a script'],
    ],
  },
  tap: {
    summary: 'Print connections of a Service as they end.',
    usage: 'SERVICE... [flags]',
    description:
      'Queries a running Usher on this host every second for the TCP connections of a Service or ' +
      'route that have ended, and prints one line for each: the client, the endpoint it used, the ' +
      'endpoints that failed before, duration, bytes in each direction and how it ended. Never ' +
      'shows the data of a connection. Usher records connections only while a tap is running. ' +
      'Runs until Ctrl-C, then exits 0; if Usher stops answering, says so and keeps trying. Exits ' +
      '3 when no Usher answers at the start; 1 if there is no such Service.',
    examples: [
      ['usher tap default/web', 'all ports of a Service'],
      ['usher tap db --failed', 'only failed connections'],
      [
        'usher tap default/web --client 10.244.3.0/24 -o json',
        'from one range of pods, for jq',
      ],
    ],
    needs: {
      oneOf: ['service'],
      message: 'no Service given; name one, like usher tap default/web',
    },
  },
  explain: {
    summary: 'Explain which endpoint a client would get, and why not another.',
    usage: '[CLIENT] ADDRESS:PORT|unix:PATH [flags]',
    description:
      'Queries a running Usher on this host for what would happen to a client that dials an ' +
      'address: the Service or route, the verdict of its traffic policies, whether affinity pins ' +
      'the client, which endpoint it would get, and why not each of the others: not ready, on ' +
      'another node, in cooldown after a failure, drained, or at its limit. In the kernel modes, ' +
      'where the kernel chooses, it names the chains, map entries or virtual servers of the ' +
      'address, with the command that shows each; it does not read affinity entries in the ' +
      'kernel. It makes no connection and does not advance round-robin. For a unix socket, whose ' +
      'clients have no address, leave out CLIENT. Exits 0 if the client would be forwarded; 1 if ' +
      'it would not, would have to wait, or nothing is served there; 2 on a usage error.',
    examples: [
      ['usher explain 10.0.3.7 10.96.0.10:80', 'a client of a ClusterIP'],
      ['usher explain 10.0.3.7 10.96.0.10:53 --protocol udp', 'a UDP client'],
      ['usher explain 127.0.0.1 127.0.0.1:15432', 'a route of a sidecar'],
      ['usher explain unix:/run/db.sock', 'a client of a unix socket'],
    ],
    needs: {
      oneOf: ['dialled'],
      message:
        'nothing to explain; give a client and what it dials, like usher explain 10.0.3.7 10.96.0.10:80',
    },
  },
  close: {
    summary: 'Reset a connection.',
    usage: 'CONNECTION... --control-socket PATH',
    description:
      'Tells a running Usher, over its control socket, to reset TCP connections on both sides. ' +
      'Name them as `usher get connections` does; names are never reused. Exits 0 when all of ' +
      'them were open and are now closed; 1 when one was not open, which it names; 3 with the ' +
      'reason when no Usher answers.',
    examples: [
      ['usher close 1-mf3k2a9x-42 --control-socket /run/usher/control', 'one connection'],
    ],
    needs: {
      oneOf: ['connection'],
      message: 'no connection given; usher get connections lists them',
    },
  },
  upgrade: {
    summary: 'Replace a running Usher by this one, without a cut connection.',
    usage: '--control-socket PATH [flags] [-- run|sidecar FLAGS]',
    description:
      'Starts this version of Usher beside the one that answers at the control socket. When it is ' +
      'ready, what listens and what is connected passes to it, and the old one ends. If it does not ' +
      'come to serve, the old one stays as it is. If the running one is of this version and was ' +
      'started alike, it only rereads its files, as after SIGHUP. What a unit of systemd needs for ' +
      'ExecReload. Exits 0 when the new one serves; 1 when it does not; 3 when no Usher answers.',
    examples: [
      [
        'usher upgrade --control-socket /run/usher/control',
        'after a new version was installed',
      ],
      [
        'usher upgrade --control-socket /run/usher/control --always',
        'also if nothing has changed',
      ],
    ],
  },
  wait: {
    summary: 'Wait until something accepts connections at an address.',
    usage: 'ROUTE|HOST:PORT... [flags]',
    description:
      'Connects to each address until all of them accept, then exits 0. In an init container it ' +
      'delays the application until its database is up. Because a proxy accepts before it knows ' +
      'whether an endpoint is available, a connection counts only once it has stayed open for a ' +
      'moment or received a byte; a sidecar on this host or in this pod is also asked whether its ' +
      'clients are connected or only held (see --address). Retries with growing pauses of up to a ' +
      'second, and reports on stderr every few seconds what it is waiting for. Exits 1 with the ' +
      'last reason at the timeout; 2 on a usage error.',
    examples: [
      ['usher wait db.prod.svc:5432', 'a database, in an init container'],
      ['usher wait tcp://127.0.0.1:15432', 'the same through the sidecar in the pod'],
      ['usher wait 10.0.0.5:5432 10.0.0.6:5432 --timeout 5m', 'both of them'],
    ],
    needs: {
      oneOf: ['for'],
      message: 'nothing to wait for; give an address, like usher wait db.prod.svc:5432',
    },
  },
  cleanup: {
    summary: 'Remove what Usher or kube-proxy left in the kernel.',
    usage: '[flags]',
    description:
      'Removes the rules, sets, virtual servers, routes, addresses and devices that Usher or ' +
      "kube-proxy's userspace, iptables, ipvs and nftables modes left on this node, and nothing " +
      "else. Keeps the kubelet's chains, what other programs' rules use, and what belongs to a " +
      'running kube-proxy. It detects kube-proxy by its answer on 127.0.0.1:10249/proxyMode, ' +
      'which --only-usher does not query. An Usher without rules on that port, such as a sidecar, may hide ' +
      'a kube-proxy: then anything that may belong to one stays too. Stop Usher first. Exits 0 ' +
      'when everything is gone or there was nothing; 1 with the reason for what stayed.',
    examples: [
      ['usher cleanup --dry-run', 'preview'],
      ['usher cleanup', 'remove everything; as root'],
      ['usher cleanup --only-usher', 'keep what a current kube-proxy may own'],
    ],
  },
  completion: {
    summary: 'Print the completion script for a shell.',
    usage: 'bash|zsh|fish',
    description:
      'Prints the completion script for a shell. Once it is loaded, the tab key completes ' +
      'commands, flags, flag values from a fixed set, and file names. Needs bash 4 or later, or ' +
      'zsh with compinit; in zsh the script can also be installed as a file named _usher in your ' +
      'fpath. Exits 0; 2 on a usage error.',
    examples: [
      ['usher completion bash', 'in ~/.bashrc: source <(usher completion bash)'],
      ['usher completion zsh', 'in ~/.zshrc: source <(usher completion zsh)'],
      ['usher completion fish | source', 'in the current fish session'],
    ],
    needs: {
      oneOf: ['shell'],
      message: 'no shell given; give bash, zsh or fish',
    },
  },
  bench: {
    summary: 'Compare Usher with HAProxy, nginx and no proxy at all.',
    usage: '[flags]',
    description:
      'Builds a client, nodes and backend pods in its own network namespaces, starts Usher (with ' +
      'each capture), HAProxy and nginx there, and measures them in turn under the same load. ' +
      'Prints a table, and writes the figures and an illustrated report. Names whatever it skips ' +
      'because it is not installed or not possible here. Changes nothing on the host and leaves ' +
      'nothing behind, however it ends; Ctrl-C keeps the results so far. Exits 0 when everything was measured, 1 ' +
      'when something failed.',
    examples: [
      ['usher bench --quick', 'under three minutes'],
      ['usher bench --install-peers', 'all scenarios; as root, on Debian or Ubuntu'],
      [
        'usher bench --only requests,latency --targets direct,usher,haproxy',
        'a selection',
      ],
      [
        'usher bench --target kube-proxy=10.96.0.10:80 --backend 10.244.1.7:80',
        'an existing address',
      ],
    ],
  },
} as const satisfies Readonly<Record<string, CommandText>>

export type Command = keyof typeof commands

export const isCommand = (word: string): word is Command => Object.hasOwn(commands, word)

export const commandNames: readonly Command[] = Object.keys(commands).filter(isCommand)

/** What `usher` ends with, and what that means: for help, man pages and docs. */
export const exitCodes: readonly (readonly [code: string, meaning: string])[] = [
  ['0', 'the command succeeded, or a proxy ended because it was told to'],
  ['1', 'the command failed or found a problem; the reason is on standard error'],
  [
    '2',
    'usage error, or a configuration, kubeconfig, manifest or route that cannot be used',
  ],
  [
    '3',
    'no Usher answered: none is running there, it does not listen, or you lack permission',
  ],
  ['75', 'the configuration file of `usher run` has changed: restart Usher'],
]
