pub fn part() {}
