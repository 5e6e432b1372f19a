import './parts/command/ends.ts'
