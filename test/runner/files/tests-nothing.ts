import 'tap'
