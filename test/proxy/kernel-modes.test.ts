// One process for all of them: each costs a second to start.
import './parts/asked-mode.ts'
import './parts/kernel-settings.ts'
import './parts/kernel-setup.ts'
import './parts/kernel-step.ts'
import './parts/say-choices.ts'
import './parts/wanted-sysctls.ts'
import './parts/run-iptables.ts'
import './parts/localnet-guard.ts'
