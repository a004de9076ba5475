//! Reads facts back from text alone: the independent way to an answer that the answerability gate compares with.

/// One station's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    /// Its number.
    pub id: u32,
    /// Values of the keys, in the order of [`crate::passage::KEYS`].
    pub values: [u32; 3],
}

/// One listed program: `a * b + c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its number.
    pub id: u32,
    /// What it computes.
    pub result: u32,
}

/// Everything that a text states completely, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Statements about stations.
    pub stations: Vec<Station>,
    /// Listed programs.
    pub programs: Vec<Program>,
    /// Section titles of two words.
    pub titles: Vec<String>,
}

impl Facts {
    /// Reads a text; lines that state nothing completely are passed over.
    pub fn read(text: &str) -> Self {
        let mut facts = Self::default();
        for line in text.lines() {
            if let Some(title) = title(line) {
                facts.titles.push(title);
            } else if let Some(station) = station(line) {
                facts.stations.push(station);
            } else if let Some(program) = program(line) {
                facts.programs.push(program);
            }
        }
        facts
    }

    /// The one station of this number; none when there is none or when there are several.
    pub fn station(&self, id: u32) -> Option<Station> {
        let mut found = self.stations.iter().filter(|station| station.id == id);
        let first = found.next()?;
        found.next().is_none().then_some(*first)
    }

    /// The one program of this number; none when there is none or when there are several.
    pub fn program(&self, id: u32) -> Option<Program> {
        let mut found = self.programs.iter().filter(|program| program.id == id);
        let first = found.next()?;
        found.next().is_none().then_some(*first)
    }
}

fn title(line: &str) -> Option<String> {
    let rest = line.strip_prefix("# ")?;
    (rest.split(' ').count() == 2 && !rest.ends_with(' ')).then(|| rest.to_owned())
}

fn station(line: &str) -> Option<Station> {
    let rest = line.strip_prefix("Station ")?.strip_suffix('.')?;
    let (id, rest) = rest.split_once(" has depth ")?;
    let (depth, rest) = rest.split_once(", mass ")?;
    let (mass, speed) = rest.split_once(" and speed ")?;
    Some(Station { id: number(id, 4)?, values: [number(depth, 3)?, number(mass, 3)?, number(speed, 3)?] })
}

fn program(line: &str) -> Option<Program> {
    let (id, rest) = line.strip_prefix("Program ")?.split_once(": ")?;
    let (a, rest) = rest.split_once(" * ")?;
    let (b, c) = rest.split_once(" + ")?;
    Some(Program { id: number(id, 4)?, result: number(a, 2)? * number(b, 1)? + number(c, 3)? })
}

/// A number of exactly `width` digits: a number that the end of the text cut short is none.
pub(crate) fn number(text: &str, width: usize) -> Option<u32> {
    let digits = text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_read_and_cut_ones_are_not() {
        let text = "\n# amber harbor\nStation 0417 has depth 382, mass 951 and speed 127.\nProgram 2203: 17 * 4 + 152\n\
                    Program 2204: 17 * 4 + 15\n# amber";
        let facts = Facts::read(text);
        assert_eq!(facts.titles, ["amber harbor"]);
        assert_eq!(facts.stations, [Station { id: 417, values: [382, 951, 127] }]);
        assert_eq!(facts.programs, [Program { id: 2203, result: 220 }]);
        assert_eq!(facts.station(418), None);
    }

    #[test]
    fn a_contradiction_answers_nothing() {
        let line = |v| format!("\nStation 0001 has depth {v}, mass 100 and speed 100.");
        assert_eq!(Facts::read(&(line(200) + &line(300))).station(1), None);
    }
}
