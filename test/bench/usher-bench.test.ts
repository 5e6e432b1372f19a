// One process for all of them: each costs a second to start.
import './parts/command/measure-scenario.ts'
import './parts/command/plan.ts'
import './parts/command/outputs.ts'
import './parts/command/run.ts'
